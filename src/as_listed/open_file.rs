//! A file of a file system, which stays open while it is read.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use object_store::ObjectMeta;

/// An open file. If another one takes its place, this one is read on.
#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    file: Arc<Mutex<File>>,
    path: PathBuf,
}

impl OpenFile {
    pub(super) fn new(file: File, path: PathBuf) -> Self {
        Self {
            file: Arc::new(Mutex::new(file)),
            path,
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
        // Those that follow one another, as columns do that are side by side, are read at once. That is fewer system calls,
        // and large buffers teach the allocator of glibc to keep memory rather than to give back and fetch again what each
        // batch is made of: `SELECT *` takes 0.7 to 0.8 of the time by this.
        let stretches = || ranges.chunk_by(|a, b| a.end == b.start);
        // The buffers are of the thread that goes on with them. An allocator keeps memory for each thread that allocates
        // much, and the runtime has more threads that block than others.
        let buffer = |stretch: &[Range<u64>]| {
            let range = stretch[0].start..stretch[stretch.len() - 1].end;
            let length = (range.end - range.start) as usize;
            (range, Vec::with_capacity(length))
        };
        let buffers = stretches().map(buffer).collect();
        let (open, now) = (self.clone(), listed.clone());
        let task = SpawnedTask::spawn_blocking(move || open.fill(buffers, now));
        let read = task
            .await
            .map_err(|source| object_store::Error::JoinError { source })?;
        let (buffers, now) = read.map_err(failed)?;
        let slices = |(stretch, bytes): (&[Range<u64>], Bytes)| {
            let at = |offset: u64| (offset - stretch[0].start) as usize;
            let slice = |range: &Range<u64>| bytes.slice(at(range.start)..at(range.end));
            stretch.iter().map(slice).collect::<Vec<_>>()
        };
        Ok((stretches().zip(buffers).flat_map(slices).collect(), now))
    }

    /// Fills buffers, each from a range of the file, and looks at the file. Both at once, since another task might be in
    /// another thread.
    fn fill(
        &self,
        buffers: Vec<(Range<u64>, Vec<u8>)>,
        listed: ObjectMeta,
    ) -> Result<(Vec<Bytes>, ObjectMeta)> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut filled = Vec::with_capacity(buffers.len());
        for (range, mut buffer) in buffers {
            let length = range.end - range.start;
            file.seek(SeekFrom::Start(range.start))?;
            // Memory that is written for the first time, and not zeroed before.
            let read = file.by_ref().take(length).read_to_end(&mut buffer)?;
            if (read as u64) < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            filled.push(buffer.into());
        }
        let metadata = file.metadata()?;
        let now = ObjectMeta {
            size: metadata.len(),
            last_modified: metadata.modified()?.into(),
            e_tag: None,
            ..listed
        };
        Ok((filled, now))
    }
}
