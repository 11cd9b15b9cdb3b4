//! What is known of files, kept for the next session.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::SortOptions;
use arrow::datatypes::Int32Type;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTableConfig, ListingTableUrl};
use datafusion::prelude::{SessionContext, col};
use datafusion_sorted_listing::{SortedListingConfig, SortedListingTable};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::support::*;
use crate::watched_store::WatchedStore;

const BY_KEY: &str = "SELECT k, v FROM t ORDER BY k";

/// A file of ten keys; `v` is of this version.
fn write(folder: &Folder, file: i64, version: i64) {
    let keys = file * 10..file * 10 + 10;
    let v = int64(keys.clone().map(|key| key * 10 + version));
    let rows = batch([("k", int64(keys)), ("v", v)]);
    folder.write_with(&shuffled_name(file as usize), &rows, row_groups_of(5));
}

fn folder_of(files: i64) -> Folder {
    let folder = Folder::new();
    (0..files).for_each(|file| write(&folder, file, 1));
    folder
}

/// The time of a file that nothing writes to.
const LONG_AGO: SystemTime = SystemTime::UNIX_EPOCH;

fn age(manifest: &Path) {
    let file = std::fs::File::options().write(true).open(manifest);
    file.unwrap().set_modified(LONG_AGO).unwrap();
}

/// Whether a manifest has not been written since it was [aged](age).
fn is_untouched(manifest: &Path) -> bool {
    let metadata = std::fs::metadata(manifest).unwrap();
    metadata.modified().unwrap() == LONG_AGO
}

/// Where the manifest is: in a folder of its own, since all files in that of the table are of the table.
fn manifest_in(kept: &Folder) -> PathBuf {
    kept.path().join("t.manifest")
}

/// A new session with the table of `folder` and its manifest, in a store that is watched. DataFusion reads no footers to
/// make the table, and planning none for the query to find them in the session's cache.
async fn session(folder: &Folder, kept: &Folder) -> (SessionContext, Arc<WatchedStore>) {
    let session = Session::new(2).without_caches();
    let session = session.set("datafusion.execution.meta_fetch_concurrency", 1);
    let ctx = session.sorted().await;
    let store = WatchedStore::of(&ctx);
    let location = folder.location();
    let watched = format!("watched://it{location}");
    let ddl = folder.ddl("k").replace(&location, &watched);
    let ddl = ddl.replace("TABLE t", "TABLE t (k BIGINT, v BIGINT)");
    let manifest = manifest_in(kept);
    run(
        &ctx,
        &format!(
            "{ddl} OPTIONS ('sorted_listing.manifest' 'watched://it{}')",
            manifest.display()
        ),
    )
    .await;
    store.take_reads();
    (ctx, store)
}

/// The names of the files whose footers it takes to plan a query of all rows, sorted.
async fn read_to_plan(ctx: &SessionContext, store: &WatchedStore) -> Vec<String> {
    physical_plan(ctx, BY_KEY).await;
    let mut names = store.take_names();
    names.retain(|name| name.ends_with(".parquet"));
    names
}

async fn right_rows(folder: &Folder) -> Vec<String> {
    let stock = Session::new(1).stock().await;
    run(&stock, folder.ddl("k").split(" WITH ORDER").next().unwrap()).await;
    rows(&stock, BY_KEY).await
}

#[tokio::test]
async fn the_next_session_reads_what_is_new() {
    let (folder, kept) = (folder_of(40), Folder::new());
    let (ctx, store) = session(&folder, &kept).await;
    assert_eq!(read_to_plan(&ctx, &store).await, shuffled_names(0..40));
    assert_eq!(rows(&ctx, BY_KEY).await, right_rows(&folder).await);

    let (ctx, store) = session(&folder, &kept).await;
    assert!(read_to_plan(&ctx, &store).await.is_empty());
    assert_eq!(rows(&ctx, BY_KEY).await, right_rows(&folder).await);
    let count = "SELECT count(*), min(k), max(k), min(v) FROM t";
    store.take_reads();
    assert_eq!(rows(&ctx, count).await, ["400 0 399 1"]);
    assert!(store.take_reads().is_empty());

    // Others, of which one is larger than before.
    write(&folder, 7, 2);
    (40..43).for_each(|file| write(&folder, file, 1));
    std::fs::remove_file(folder.path().join(shuffled_name(11))).unwrap();
    let (ctx, store) = session(&folder, &kept).await;
    assert_eq!(
        read_to_plan(&ctx, &store).await,
        shuffled_names([7, 40, 41, 42])
    );
    assert_eq!(rows(&ctx, BY_KEY).await, right_rows(&folder).await);

    // They are known by now.
    let (ctx, store) = session(&folder, &kept).await;
    assert!(read_to_plan(&ctx, &store).await.is_empty());
    assert_eq!(rows(&ctx, BY_KEY).await, right_rows(&folder).await);
}

/// A manifest is not written for each file that comes.
#[tokio::test]
async fn few_new_files_are_not_worth_writing_it() {
    let (folder, kept) = (folder_of(40), Folder::new());
    let (ctx, _) = session(&folder, &kept).await;
    run(&ctx, BY_KEY).await;
    let written = std::fs::read(manifest_in(&kept)).unwrap();
    for (file, is_written) in [(40, false), (41, false), (42, true)] {
        write(&folder, file, 1);
        refresh(&ctx).await;
        assert_eq!(rows(&ctx, BY_KEY).await, right_rows(&folder).await);
        let now = std::fs::read(manifest_in(&kept)).unwrap();
        assert_eq!(now != written, is_written, "{file}");
    }
}

/// What is wrong with it costs time and nothing else.
#[tokio::test]
async fn a_manifest_that_is_wrong_is_not_used() {
    let (folder, kept) = (folder_of(20), Folder::new());
    let (ctx, _) = session(&folder, &kept).await;
    run(&ctx, BY_KEY).await;
    let path = manifest_in(&kept);
    let whole = std::fs::read(&path).unwrap();
    let right = right_rows(&folder).await;

    let other = folder_of(20);
    let (ctx, _) = session(&other, &kept).await;
    run(&ctx, BY_KEY).await;
    let foreign = std::fs::read(manifest_in(&kept)).unwrap();
    let mut wrong = vec![foreign];
    let torn = (1..24).map(|part| whole[..whole.len() * part / 24].to_vec());
    wrong.extend(torn);
    for (kind, bytes) in wrong.into_iter().enumerate() {
        std::fs::write(&path, &bytes).unwrap();
        let (ctx, store) = session(&folder, &kept).await;
        assert_eq!(
            read_to_plan(&ctx, &store).await,
            shuffled_names(0..20),
            "{kind}"
        );
        assert_eq!(rows(&ctx, BY_KEY).await, right);
        // And it is right again.
        let (ctx, store) = session(&folder, &kept).await;
        assert_eq!(
            read_to_plan(&ctx, &store).await,
            shuffled_names([]),
            "{kind}"
        );
        assert_eq!(rows(&ctx, BY_KEY).await, right);
    }

    // One byte is another, in the rows or in the footer.
    for place in (0..whole.len()).step_by(whole.len() / 150) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x15;
        std::fs::write(&path, &bytes).unwrap();
        let (ctx, store) = session(&folder, &kept).await;
        assert_eq!(
            read_to_plan(&ctx, &store).await,
            shuffled_names(0..20),
            "byte {place}"
        );
        assert_eq!(rows(&ctx, BY_KEY).await, right, "byte {place}");
    }
}

/// A path that is mistyped may be that of another file.
#[tokio::test]
async fn another_file_stays_as_it_is() {
    let (folder, kept) = (folder_of(20), Folder::new());
    let (ctx, _) = session(&folder, &kept).await;
    run(&ctx, BY_KEY).await;
    let path = manifest_in(&kept);
    let whole = std::fs::read(&path).unwrap();
    let right = right_rows(&folder).await;
    let data = std::fs::read(folder.path().join(shuffled_name(3))).unwrap();
    let text = b"datafusion-sorted-listing manifest".to_vec();
    let large = [vec![7; 1 << 20], whole.clone()].concat();
    let others = [
        text,
        b"PAR1PAR1".to_vec(),
        b"P".to_vec(),
        vec![],
        whole[1..].to_vec(),
        data,
        large,
    ];
    for other in others {
        std::fs::write(&path, &other).unwrap();
        let (ctx, store) = session(&folder, &kept).await;
        physical_plan(&ctx, BY_KEY).await;
        let name = path.file_name().unwrap().to_str().unwrap();
        let of_other = store.take_reads().into_iter();
        let of_other = of_other.filter(|(of, _)| of.as_str() == name);
        let read: u64 = of_other.map(|(_, bytes)| bytes).sum();
        // To look at it before it is read, and before it would be written.
        assert!((1..=2 * (64 << 10)).contains(&read), "{read}");
        assert_eq!(rows(&ctx, BY_KEY).await, right);
        assert_eq!(std::fs::read(&path).unwrap(), other);
    }
}

/// A folder may have another name, by which it is not known to be that of the table.
#[cfg(unix)]
#[tokio::test]
async fn a_manifest_among_the_files_is_no_data() {
    let folder = folder_of(3);
    let links = Folder::new();
    let link = links.path().join("link");
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    let manifest = link.join("m");
    let columns = "TABLE t (k BIGINT, v BIGINT)";
    let ddl = folder.ddl("k").replace("TABLE t", columns);
    let ddl = format!(
        "{ddl} OPTIONS ('sorted_listing.manifest' '{}')",
        manifest.display()
    );
    let right = right_rows(&folder).await;
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &ddl).await;
    assert_eq!(rows(&ctx, BY_KEY).await, right);
    assert!(manifest.exists());
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &ddl).await;
    let error = error(&ctx, BY_KEY).await;
    assert!(error.contains("/m' cannot be read"), "{error}");
    assert!(error.contains("it is a manifest"), "{error}");
}

/// The same files may be declared otherwise.
#[tokio::test]
async fn a_manifest_is_of_one_declaration() {
    let (folder, kept) = (folder_of(20), Folder::new());
    let manifest = manifest_in(&kept);
    let orders = ["k", "k ASC NULLS FIRST", "k, v", "v"];
    for order in orders.iter().chain(&orders) {
        let ctx = Session::new(2).sorted().await;
        let ddl = folder.ddl(order);
        let options = format!(
            "OPTIONS ('sorted_listing.manifest' '{}')",
            manifest.display()
        );
        run(&ctx, &format!("{ddl} {options}")).await;
        assert_eq!(
            rows(&ctx, BY_KEY).await,
            right_rows(&folder).await,
            "{order}"
        );
        let plan = plan(&ctx, &folder, &format!("SELECT * FROM t ORDER BY {order}")).await;
        assert!(!plan.contains("SortExec"), "{order}: {plan}");
    }
}

#[tokio::test]
async fn a_manifest_that_cannot_be_written_is_no_error() {
    let folder = folder_of(3);
    let ctx = Session::new(2).sorted().await;
    let other = folder_of(1);
    let file = other.path().join(shuffled_name(0));
    let options = format!("OPTIONS ('sorted_listing.manifest' '{}/m')", file.display());
    run(&ctx, &format!("{} {options}", folder.ddl("k"))).await;
    assert_eq!(rows(&ctx, BY_KEY).await, right_rows(&folder).await);
}

#[tokio::test]
async fn places_that_are_wrong_are_named() {
    let folder = folder_of(3);
    let location = folder.location();
    for (url, why) in [
        (
            format!("{location}m.parquet"),
            "is in the folder of the table",
        ),
        (format!("{location}m"), "is in the folder of the table"),
        (location.clone(), "is not the path of a file"),
        ("nowhere://x/m".into(), "nowhere"),
    ] {
        let ctx = Session::new(2).sorted().await;
        let options = format!("OPTIONS ('sorted_listing.manifest' '{url}')");
        run(&ctx, &format!("{} {options}", folder.ddl("k"))).await;
        let error = error(&ctx, BY_KEY).await;
        assert!(error.contains(why), "{error}");
    }
}

/// Columns of each kind, some with NULL, with what footers say of them.
fn write_kinds(folder: &Folder, name: &str, from: i64, claims: bool) {
    let keys = from..from + 100;
    let some = |key: i64| (key % 7 > 0).then_some(key);
    let text = |key: i64| format!("{}{key:06}", "long ".repeat(20));
    let micros = TimestampMicrosecondArray::from_iter_values(keys.clone().map(|key| key / 10));
    let decimals = Decimal128Array::from_iter(keys.clone().map(|key| some(key).map(i128::from)));
    let words: Vec<_> = keys.clone().map(|key| format!("{:03}", key / 50)).collect();
    let columns: [(&str, ArrayRef); 8] = [
        ("ts", Arc::new(micros.with_timezone("+01:00"))),
        ("k", int64(keys.clone())),
        (
            "n",
            Arc::new(keys.clone().map(some).collect::<Int64Array>()),
        ),
        (
            "s",
            Arc::new(StringArray::from_iter_values(keys.clone().map(text))),
        ),
        (
            "view",
            Arc::new(StringViewArray::from_iter(
                keys.clone().map(|key| some(key).map(text)),
            )),
        ),
        (
            "f",
            Arc::new(Float64Array::from_iter_values(
                keys.clone().map(|key| -1.0 / key as f64),
            )),
        ),
        (
            "d",
            Arc::new(decimals.with_precision_and_scale(12, 3).unwrap()),
        ),
        (
            "w",
            Arc::new(DictionaryArray::<Int32Type>::from_iter(
                words.iter().map(String::as_str),
            )),
        ),
    ];
    let sorting = |column_idx: i32| {
        let SortOptions {
            descending,
            nulls_first,
        } = SortOptions::new(false, false);
        SortingColumn {
            column_idx,
            descending,
            nulls_first,
        }
    };
    let sorting = claims.then(|| vec![sorting(0), sorting(1)]);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(30))
        .set_sorting_columns(sorting)
        .build();
    folder.write_with(name, &batch(columns), properties);
}

/// What the next session knows is what the footers say.
#[tokio::test]
async fn nothing_is_lost_on_the_way() {
    for (order, partitioned) in [
        (Some("ts, k"), false),
        (Some("ts, s"), true),
        (Some("view, f"), false),
        (Some("d, n"), false),
        (Some("f"), true),
        (Some("k"), false),
        (Some("w, k"), true),
        (None, false),
    ] {
        let folder = Folder::new();
        for file in 0..6 {
            let name = match partitioned {
                true => format!("part={}/{}", file / 3, shuffled_name(file)),
                false => shuffled_name(file),
            };
            std::fs::create_dir_all(folder.path().join(&name).parent().unwrap()).unwrap();
            write_kinds(&folder, &name, file as i64 * 95, order.is_none());
        }
        let kept = Folder::new();
        let manifest = manifest_in(&kept);
        let mut known = vec![];
        for with_manifest in [false, true, true] {
            let ctx = Session::new(3).sorted().await;
            let ddl = folder.ddl(order.unwrap_or("k"));
            let ddl = match order {
                Some(_) => ddl,
                None => ddl.replace(" WITH ORDER (k)", ""),
            };
            let ddl = match partitioned {
                true => ddl.replace(" LOCATION", " PARTITIONED BY (part) LOCATION"),
                false => ddl,
            };
            let options = match with_manifest {
                true => format!(
                    "OPTIONS ('sorted_listing.manifest' '{}')",
                    manifest.display()
                ),
                false => String::new(),
            };
            run(&ctx, &format!("{ddl} {options}")).await;
            let order = order.unwrap_or("ts, k");
            // Of the rows of two files, those that are equal in all else.
            let part = if partitioned { ", part" } else { "" };
            let mut all = vec![];
            for query in [
                // NULLs are counted by footers, while they are held.
                "SELECT slice, cluster_id, run, file, first_row_group, row_groups, rows, bytes, lower, upper, strict_gap FROM sorted_layout('t')",
                "SELECT * FROM sorted_layout_summary('t')",
                "SELECT count(*), min(ts), max(ts), max(s), min(view), min(n), max(d), count(n) FROM t",
                &format!("SELECT * FROM t ORDER BY {order}, k{part}"),
                "EXPLAIN SELECT count(*), min(ts), max(s) FROM t",
                &format!("EXPLAIN SELECT * FROM t ORDER BY {order}"),
                "EXPLAIN SELECT k FROM t WHERE k > 250 AND n IS NOT NULL AND f < -0.0005",
                "SELECT k FROM t WHERE k > 250 AND n IS NOT NULL AND f < -0.0005 ORDER BY k",
            ] {
                all.push((query.to_owned(), rows(&ctx, query).await));
            }
            known.push(all);
            match known.len() {
                1 => assert!(!manifest.exists(), "{order:?}"),
                2 => age(&manifest),
                // Each footer that is read would have it written again.
                _ => assert!(is_untouched(&manifest), "{order:?}"),
            }
        }
        let loaded = known.pop().unwrap();
        for known in known {
            for (before, after) in known.iter().zip(&loaded) {
                assert_eq!(before, after, "{order:?}");
            }
        }
    }
}

/// Files of which little or nothing is known, in folders that are listed as paths of their own.
#[tokio::test]
async fn odd_files_are_known_again() {
    let folder = Folder::new();
    let nullable = |keys: Vec<Option<i64>>| Arc::new(Int64Array::from(keys)) as ArrayRef;
    let rows = |keys: ArrayRef| {
        let v = int64(0..keys.len() as i64);
        batch([("k", keys), ("v", v)])
    };
    let unknown = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None);
    folder.write("a/empty.parquet", &rows(int64([])));
    folder.write("a/plain.parquet", &rows(int64(0..20)));
    folder.write(
        "a/nulls.parquet",
        &rows(nullable(vec![Some(30), Some(40), None, None])),
    );
    folder.write("b/without.parquet", &batch([("v", int64(0..3))]));
    let narrow = Arc::new(Int32Array::from_iter_values(50..60)) as ArrayRef;
    folder.write("b/narrow.parquet", &rows(narrow));
    folder.write_with("b/unknown.parquet", &rows(int64(60..70)), unknown.build());
    folder.write("b/overlap.parquet", &rows(int64(15..35)));
    let false_order = int64((80..85).chain(70..75));
    let kept = Folder::new();
    for with_false_order in [false, true] {
        if with_false_order {
            folder.write_with(
                "b/false.parquet",
                &rows(Arc::clone(&false_order)),
                row_groups_of(5),
            );
        }
        let mut known = vec![];
        let path = manifest_in(&kept);
        for manifest in [None, Some(&path), Some(&path)] {
            let ctx = Session::new(2).sorted().await;
            let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
                .with_file_sort_order(vec![vec![col("k").sort(true, false)]]);
            let paths = ["a", "b"].map(|of| format!("{}{of}/", folder.location()));
            let paths = paths.map(|path| ListingTableUrl::parse(path).unwrap());
            let columns = rows(int64([])).schema();
            let table = ListingTableConfig::new_with_multi_paths(paths.to_vec())
                .with_listing_options(options)
                .with_schema(columns);
            let mut config = SortedListingConfig::default();
            config.manifest = manifest.map(|path| path.display().to_string());
            let table = SortedListingTable::try_new(table).unwrap();
            let table = Arc::new(table.with_config(config));
            ctx.register_table("t", table).unwrap();
            let mut all = vec![];
            for query in [
                "SELECT slice, cluster_id, run, file, row_groups, rows, lower, upper, strict_gap FROM sorted_layout('t')",
                "SELECT * FROM sorted_layout_summary('t')",
                "SELECT count(*), count(k), min(k), max(k), max(v) FROM t",
                "SELECT * FROM t ORDER BY k, v",
                "SELECT * FROM t WHERE k < 18 OR k IS NULL ORDER BY k DESC, v",
                "EXPLAIN SELECT * FROM t ORDER BY k",
                "EXPLAIN SELECT * FROM t WHERE k > 45",
            ] {
                all.push((query, crate::support::rows(&ctx, query).await));
            }
            known.push(all);
            match known.len() {
                1 => assert_eq!(path.exists(), with_false_order),
                2 => age(&path),
                _ => assert!(is_untouched(&path)),
            }
        }
        let without = known.remove(0);
        for known in known {
            assert_eq!(known, without);
        }
    }
}
