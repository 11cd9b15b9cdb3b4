//! Making a snapshot of a listing, out of what is known already and of footers that are read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::table_schema::TableSchema;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::known_file::{Indexer, KnownFile, ReadFile, Unread};
use super::listing::{Listed, same_version};
use super::ranges::KeyRanges;
use super::statistics::FileStatistics;
use super::{Files, HeldFooter, MOST_FOOTERS, Snapshot};

/// How many files are read before what is known of them is put together.
const CHUNK: usize = 2048;

/// In how many tasks.
const TASKS: usize = 4;

/// A snapshot of the files in `listing`. The footers of those that `known` has are not read.
///
/// # Errors
/// If a footer cannot be read, or a path has what is no value of a partition column, naming the file.
pub(crate) async fn build(
    indexer: &Indexer,
    listing: Vec<Listed>,
    known: Option<&Snapshot>,
) -> Result<Snapshot> {
    let (places, unread) = compare(listing, known);
    // What is wrong with a path is said before footers are read.
    let unread = unread.into_iter().map(|listed| indexer.unread(listed));
    let unread = unread.collect::<Result<Vec<_>>>()?;
    let mut budget = MOST_FOOTERS;
    let mut indexer = indexer.clone();
    let mut read: Vec<Files> = vec![];
    let mut bytes = 0;
    let count = unread.len();
    let mut unread = unread.into_iter();
    while unread.len() > 0 {
        let chunk = unread.by_ref().take(CHUNK).collect();
        let files = read_files(&indexer, chunk).await?;
        let sizes = files.iter().map(|file| file.footer.bytes);
        bytes += sizes.sum::<usize>();
        read.push(Files::of(files, &indexer.table, &mut budget)?);
        let expected = bytes / (count - unread.len()) * count;
        indexer.reader = indexer.reader.expecting(expected);
        if expected > MOST_FOOTERS {
            budget = 0;
        }
        // Either all footers are held or none, and then it is none as soon as that is to be seen.
        if budget == 0 {
            for footer in read.iter_mut().flat_map(|files| &mut files.footers) {
                *footer = None;
            }
        }
    }
    let none = Files::of(vec![], &indexer.table, &mut budget)?;
    let unsaved = count + known.map_or(0, |known| known.unsaved.load(Ordering::Acquire));
    let known = known.map_or(&none, |known| &known.files);
    let parts: Vec<_> = std::iter::once(known).chain(&read).collect();
    let files = Files::pick(&parts, &places)?;
    Ok(Snapshot::new(indexer.table.clone(), files, unsaved))
}

/// For each of the files of a listing, which part it is in and where: the first part are the known ones, the others
/// those to be read, which come back in chunks.
fn compare(listing: Vec<Listed>, known: Option<&Snapshot>) -> (Vec<(usize, usize)>, Vec<Listed>) {
    let known = known.map_or(&[][..], |known| known.files());
    let mut known = known.iter().enumerate().peekable();
    let mut unread = vec![];
    let mut places = Vec::with_capacity(listing.len());
    for listed in listing {
        let is_before = |file: &Arc<KnownFile>| file.meta.location < listed.meta.location;
        while known.next_if(|(_, file)| is_before(file)).is_some() {}
        let is_same = |file: &Arc<KnownFile>| {
            file.path == listed.path && same_version(&file.meta, &listed.meta)
        };
        match known.peek() {
            Some(&(place, file)) if is_same(file) => places.push((0, place)),
            _ => {
                places.push((1 + unread.len() / CHUNK, unread.len() % CHUNK));
                unread.push(listed);
            }
        }
    }
    (places, unread)
}

/// Reads the footers of `files`, in some tasks of many files each, so that footers are looked at on all cores.
fn read_files(indexer: &Indexer, files: Vec<Unread>) -> BoxFuture<'static, Result<Vec<ReadFile>>> {
    let concurrency = indexer.reader.concurrency();
    let tasks = concurrency.min(TASKS);
    let per_task = files.len().div_ceil(tasks).max(1);
    let mut files = files.into_iter();
    let parts = std::iter::from_fn(|| {
        let part: Vec<_> = files.by_ref().take(per_task).collect();
        (!part.is_empty()).then_some(part)
    });
    let tasks = parts.map(|part| {
        let read = read_in_turn(indexer, part, concurrency / tasks);
        SpawnedTask::spawn(read)
    });
    let tasks: Vec<_> = tasks.collect();
    async move {
        let mut all = vec![];
        for task in tasks {
            let read = task.join_unwind().await;
            all.extend(read.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??);
        }
        Ok(all)
    }
    .boxed()
}

fn read_in_turn(
    indexer: &Indexer,
    files: Vec<Unread>,
    concurrency: usize,
) -> BoxFuture<'static, Result<Vec<ReadFile>>> {
    // Boxed one by one, and of owned parts: otherwise it takes the compiler a minute to see that this is `Send`.
    let files = files.into_iter().map(|file| {
        let indexer = indexer.clone();
        async move {
            let read = indexer.read(file).await;
            // To look at a footer takes long enough to let others run in between.
            tokio::task::yield_now().await;
            read
        }
        .boxed()
    });
    stream::iter(files.collect::<Vec<_>>())
        .buffered(concurrency)
        .try_collect()
        .boxed()
}

impl Files {
    /// The files that were read. Their footers are held while `budget` lasts.
    fn of(read: Vec<ReadFile>, table: &TableSchema, budget: &mut usize) -> Result<Self> {
        let mut statistics = Vec::with_capacity(read.len());
        let mut ranges = Vec::with_capacity(read.len());
        let mut footers = Vec::with_capacity(read.len());
        let mut known: Vec<Arc<KnownFile>> = Vec::with_capacity(read.len());
        for mut file in read {
            if let Some(before) = known.last() {
                file.known.share_with(before);
            }
            statistics.push(file.statistics);
            ranges.push((file.known.rows(), file.ranges));
            footers.push(file.footer.within(budget));
            known.push(Arc::new(file.known));
        }
        let data_type = |column: usize| {
            let field = table.table_schema().field(column);
            crate::proof::value_type(field.data_type()).clone()
        };
        Ok(Self {
            known,
            footers,
            statistics: FileStatistics::new(&statistics, table.file_schema())?,
            ranges: KeyRanges::new(&ranges, data_type)?,
        })
    }

    /// The files at `places`, which are each a part and a file of it.
    fn pick(parts: &[&Self], places: &[(usize, usize)]) -> Result<Self> {
        let footers = || {
            places
                .iter()
                .map(|&(part, file)| parts[part].footers[file].as_ref())
        };
        let bytes: usize = footers().flatten().map(|held| held.bytes).sum();
        let all = footers().all(|held| held.is_some()) && bytes <= MOST_FOOTERS;
        let statistics: Vec<_> = parts.iter().map(|part| &part.statistics).collect();
        let ranges: Vec<_> = parts.iter().map(|part| &part.ranges).collect();
        Ok(Self {
            known: places
                .iter()
                .map(|&(part, file)| Arc::clone(&parts[part].known[file]))
                .collect(),
            footers: footers()
                .map(|held| held.cloned().filter(|_| all))
                .collect(),
            statistics: FileStatistics::pick(&statistics, places)?,
            ranges: KeyRanges::pick(&ranges, places)?,
        })
    }
}

impl HeldFooter {
    /// This footer, if it is within `budget`. One that is not ends the budget, since either all are held or none.
    fn within(self, budget: &mut usize) -> Option<Self> {
        *budget = budget.checked_sub(self.bytes).unwrap_or_default();
        (*budget > 0).then_some(self)
    }
}
