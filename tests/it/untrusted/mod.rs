//! Files that nobody vouches for: footers with bytes and numbers changed.

mod check;
mod panics;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::Statistics;

use check::{Checker, Outcome, schema};
use panics::unless_others_panic;

use crate::support::parquet_bytes;

/// SplitMix64: the same cases on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// 3 row groups of 20 rows, in order of both columns, with pages of 5 rows and a page index.
fn sound_file() -> Bytes {
    let keys = (0..60).map(|row| (row < 57).then_some(row * 3));
    let texts = (0..60).map(|row| Some(format!("text {row:03}")));
    let columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(keys)),
        Arc::new(StringArray::from_iter(texts)),
    ];
    let batch = RecordBatch::try_new(schema(), columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(20))
        .set_data_page_row_count_limit(5)
        .set_write_batch_size(5)
        .build();
    parquet_bytes(&batch, properties).into()
}

/// Where the footer begins: it is followed by its length and `PAR1`.
fn footer_start(file: &[u8]) -> usize {
    let end = file.len() - 8;
    let length: [u8; 4] = file[end..end + 4].try_into().unwrap();
    end - u32::from_le_bytes(length) as usize
}

fn parse(file: &Bytes) -> ParquetMetaData {
    ParquetMetaDataReader::new().parse_and_finish(file).unwrap()
}

/// `file` with another footer, and without page index.
fn with_footer(file: &Bytes, footer: &ParquetMetaData) -> Bytes {
    let mut changed = file[..footer_start(file)].to_vec();
    ParquetMetaDataWriter::new(&mut changed, footer)
        .finish()
        .unwrap();
    changed.into()
}

#[tokio::test]
async fn a_sound_file_is_proved() {
    let mut checker = Checker::new();
    let file = sound_file();
    assert_eq!(checker.check(&file).await, [Outcome::Proved; 2]);
    let again = with_footer(&file, &parse(&file));
    assert_eq!(checker.check(&again).await, [Outcome::Proved; 2]);
}

/// Changes a few bytes, mostly of the footer; or cuts or grows the file.
fn change_bytes(random: &mut Random, file: &Bytes) -> Bytes {
    let start = footer_start(file);
    let mut changed = file.to_vec();
    for _ in 0..1 + random.below(4) {
        let from = if random.below(8) == 0 { 0 } else { start };
        let at = from + random.below(changed.len().saturating_sub(from));
        let Some(byte) = changed.get_mut(at) else {
            continue;
        };
        match random.below(6) {
            0 => *byte = random.next() as u8,
            1 => *byte ^= 1 << random.below(8),
            2 => *byte = random.pick(&[0, 0x7F, 0x80, 0xFF]),
            3 => *byte = byte.wrapping_add(1),
            4 => drop(changed.remove(at)),
            _ => changed.insert(at, random.next() as u8),
        }
    }
    changed.into()
}

#[tokio::test]
async fn changed_bytes() {
    let mut random = Random(5);
    let mut checker = Checker::new();
    let file = sound_file();
    let mut found = BTreeMap::new();
    for _ in 0..400 {
        let changed = change_bytes(&mut random, &file);
        check(&mut checker, &changed, &mut found).await;
    }
    assert_happen(&found, &[Outcome::Error, Outcome::Unknown, Outcome::Proved]);
}

/// Counts what comes of a file.
async fn check(checker: &mut Checker, file: &Bytes, found: &mut BTreeMap<String, usize>) {
    let outcomes = match unless_others_panic(checker.check(file)).await {
        Ok(outcomes) => outcomes.map(|outcome| format!("{outcome:?}")).to_vec(),
        Err(culprit) => {
            // What is locked when a thread panics stays poisoned.
            *checker = Checker::new();
            vec![culprit]
        }
    };
    for outcome in outcomes {
        *found.entry(outcome).or_default() += 1;
    }
}

fn assert_happen(found: &BTreeMap<String, usize>, outcomes: &[Outcome]) {
    println!("{found:?}");
    for outcome in outcomes {
        let cases = found.get(&format!("{outcome:?}")).copied();
        assert!(cases > Some(2), "{outcome:?} in {found:?}");
    }
}

/// Numbers as no writer has them.
const ABSURD: [i64; 8] = [0, 1, -1, 19, 21, 1 << 40, i64::MAX, i64::MIN];
/// The same for numbers that the writer of footers adds up.
const ABSURD_PARTS: [i64; 8] = [0, 1, -1, 19, 21, 1 << 40, i64::MAX / 16, i64::MIN / 16];

fn absurd_statistics(random: &mut Random, is_text: bool) -> Option<Statistics> {
    let nulls = random.pick(&[
        None,
        Some(0),
        Some(3),
        Some(20),
        Some(21),
        Some(u64::MAX / 16),
    ]);
    let deprecated = random.below(6) == 0;
    if is_text {
        let texts: [Option<&[u8]>; 6] = [
            None,
            Some(b""),
            Some(b"text 010"),
            Some(b"text 050"),
            Some(b"\xFF\xFE"),
            Some(&[0xC3; 300]),
        ];
        let mut text = || {
            random
                .pick(&texts)
                .map(|text| ByteArray::from(text.to_vec()))
        };
        let (min, max) = (text(), text());
        return (random.below(9) > 0)
            .then(|| Statistics::byte_array(min, max, None, nulls, deprecated));
    }
    let mut end = || (random.below(7) > 0).then(|| random.pick(&ABSURD));
    let (min, max) = (end(), end());
    (random.below(9) > 0).then(|| Statistics::int64(min, max, None, nulls, deprecated))
}

/// A row group some of whose numbers are absurd.
fn change_group(random: &mut Random, group: &RowGroupMetaData) -> RowGroupMetaData {
    let mut changed = group.clone().into_builder();
    if random.below(4) == 0 {
        changed = changed.set_num_rows(random.pick(&ABSURD_PARTS));
    }
    if random.below(4) == 0 {
        changed = changed.set_total_byte_size(random.pick(&ABSURD_PARTS));
    }
    let columns = changed.take_columns().into_iter().enumerate();
    let columns = columns.map(|(index, column)| {
        let mut column = column.into_builder();
        if random.below(3) == 0 {
            column = column.clear_statistics();
            if let Some(statistics) = absurd_statistics(random, index == 1) {
                column = column.set_statistics(statistics);
            }
        }
        if random.below(6) == 0 {
            column = column.set_total_compressed_size(random.pick(&ABSURD_PARTS));
        }
        if random.below(8) == 0 {
            column = column.set_data_page_offset(random.pick(&ABSURD));
        }
        if random.below(8) == 0 {
            column = column.set_dictionary_page_offset(Some(random.pick(&ABSURD)));
        }
        column.build().unwrap()
    });
    let columns = columns.collect();
    changed.set_column_metadata(columns).build().unwrap()
}

fn change_footer(random: &mut Random, footer: &ParquetMetaData) -> ParquetMetaData {
    let groups = footer.row_groups();
    let mut changed: Vec<_> = groups
        .iter()
        .map(|group| change_group(random, group))
        .collect();
    match random.below(8) {
        0 => changed.reverse(),
        1 => drop(changed.remove(1)),
        2 => changed.push(changed[0].clone()),
        3 => changed.clear(),
        _ => {}
    }
    let mut builder = ParquetMetaDataBuilder::new(footer.file_metadata().clone());
    if random.below(2) == 0 {
        builder = builder
            .set_column_index(footer.column_index().cloned())
            .set_offset_index(footer.offset_index().cloned());
    }
    builder.set_row_groups(changed).build()
}

#[tokio::test]
async fn changed_numbers() {
    let mut random = Random(6);
    let mut checker = Checker::new();
    let file = sound_file();
    let footer = parse(&file);
    let mut found = BTreeMap::new();
    for _ in 0..250 {
        let changed = with_footer(&file, &change_footer(&mut random, &footer));
        check(&mut checker, &changed, &mut found).await;
    }
    assert_happen(&found, &[Outcome::Unknown, Outcome::Proved]);
}

/// The ends of a statistic the wrong way round, which a reader may not take for an empty range.
#[tokio::test]
async fn a_minimum_above_its_maximum_proves_nothing() {
    let mut checker = Checker::new();
    let file = sound_file();
    let footer = parse(&file);
    for reversed in 0..3 {
        let groups = footer
            .row_groups()
            .iter()
            .enumerate()
            .map(|(index, group)| {
                let mut group = group.clone().into_builder();
                let mut columns = group.take_columns();
                if index == reversed {
                    let lie = Statistics::int64(Some(100), Some(-100), None, Some(0), false);
                    let column = columns[0].clone().into_builder();
                    columns[0] = column.set_statistics(lie).build().unwrap();
                }
                group.set_column_metadata(columns).build().unwrap()
            });
        let groups = groups.collect();
        let lying = footer.clone().into_builder().set_row_groups(groups).build();
        let outcomes = checker.check(&with_footer(&file, &lying)).await;
        assert_eq!(outcomes, [Outcome::Unknown, Outcome::Proved]);
    }
}
