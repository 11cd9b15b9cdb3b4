//! A file of a file system, which stays open while it is read.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use object_store::ObjectMeta;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many files may stay open in this process, for all tables, if it is not known how many it may open: that is 256 on some
/// systems.
const MOST_OPEN: usize = 128;

/// The right to keep a file open. Most of what the process may open is left to others, stores that read files among them.
static MAY_STAY_OPEN: LazyLock<Semaphore> = LazyLock::new(|| {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = open_files_limit(&limits).unwrap_or(usize::MAX);
    Semaphore::new(MOST_OPEN.min(limit / 4))
});

/// How many files a process may open, which has these limits, as Linux shows them.
fn open_files_limit(limits: &str) -> Option<usize> {
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    limit.split_whitespace().next()?.parse().ok()
}

pub(super) type Permit = SemaphorePermit<'static>;

/// `None` if there are many open files already.
pub(super) fn permit() -> Option<Permit> {
    MAY_STAY_OPEN.try_acquire().ok()
}

/// An open file. If another one takes its place, this one is read on.
#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    file: Arc<Mutex<File>>,
    path: PathBuf,
    _permit: Arc<Permit>,
}

impl OpenFile {
    pub(super) fn new(file: File, path: PathBuf, permit: Permit) -> Self {
        Self {
            file: Arc::new(Mutex::new(file)),
            path,
            _permit: Arc::new(permit),
        }
    }

    /// The bytes in `ranges` of the file, which is or was `listed`, and what it is after they were read: if that is the
    /// same, they are of that version.
    ///
    /// # Errors
    /// If a range ends beyond the file, or it cannot be read.
    pub(super) async fn read(
        &self,
        ranges: &[Range<u64>],
        listed: &ObjectMeta,
    ) -> object_store::Result<(Vec<Bytes>, ObjectMeta)> {
        let failed = |e: Error| object_store::Error::Generic {
            store: "SortedListingTable",
            source: format!("{} cannot be read: {e}", self.path.display()).into(),
        };
        let outside = |range: &&Range<u64>| range.start > range.end || range.end > listed.size;
        // Before memory is taken for it.
        if let Some(range) = ranges.iter().find(outside) {
            let (end, size) = (ErrorKind::UnexpectedEof, listed.size);
            let what = format!("bytes {range:?} are not in a file of {size} bytes");
            return Err(failed(Error::new(end, what)));
        }
        // One buffer for all: large ones teach the allocator of glibc to keep memory, rather than to give back and fetch
        // again what each batch is made of, by which `SELECT *` takes 0.7 to 0.9 of the time. And one of this thread, which
        // goes on with it: an allocator keeps memory for each thread that allocates much, and the runtime has more threads
        // that block than others.
        let length = |range: &Range<u64>| (range.end - range.start) as usize;
        let mut buffer = vec![];
        let reserved = buffer.try_reserve_exact(ranges.iter().map(length).sum());
        reserved.map_err(|e| failed(Error::other(e)))?;
        let (open, wanted, listed) = (self.clone(), ranges.to_vec(), listed.clone());
        let task = SpawnedTask::spawn_blocking(move || open.fill(buffer, &wanted, listed));
        let read = task
            .await
            .map_err(|source| object_store::Error::JoinError { source })?;
        let (mut bytes, now) = read.map_err(failed)?;
        let split = ranges.iter().map(|range| bytes.split_to(length(range)));
        Ok((split.collect(), now))
    }

    /// Reads `ranges` into `buffer`, and looks at the file. Both at once, since another task might be in another thread.
    fn fill(
        &self,
        mut buffer: Vec<u8>,
        ranges: &[Range<u64>],
        listed: ObjectMeta,
    ) -> Result<(Bytes, ObjectMeta)> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Columns that are side by side are read at once.
        for touching in ranges.chunk_by(|a, b| a.end == b.start) {
            let (start, end) = (touching[0].start, touching[touching.len() - 1].end);
            file.seek(SeekFrom::Start(start))?;
            // Memory that is written for the first time, and not zeroed before.
            let read = file.by_ref().take(end - start).read_to_end(&mut buffer)?;
            if (read as u64) < end - start {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let metadata = file.metadata()?;
        let now = ObjectMeta {
            size: metadata.len(),
            last_modified: metadata.modified()?.into(),
            e_tag: None,
            ..listed
        };
        Ok((buffer.into(), now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_soft_one() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             95180                95180                processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(open_files_limit(limits), Some(1024));
        let unlimited = limits.replace("1024", "unlimited");
        assert_eq!(open_files_limit(&unlimited), None);
        assert_eq!(open_files_limit(""), None);
    }
}
