use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::aggregates::{AggregateExec, LimitOptions};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, collect, displayable,
};
use datafusion::prelude::{SessionConfig, SessionContext, col};

use super::key_order::descends;
use super::{KeyOrder, SortedAggregateExec};
use crate::FalseOrder;
use crate::test_random::Random;

/// Sorted rows of `a, b, v`, where both keys and the value may be NULL.
type Rows = Vec<[Option<i64>; 3]>;

fn random_rows(random: &mut Random) -> Rows {
    let rows = random.below(200);
    let values = [1, 3, 10, 90][random.below(4) as usize];
    let mut number = |below| Some(random.below(below)).filter(|it| *it > 0);
    let rows =
        (0..rows).map(|_| [number(values), number(4), number(50)].map(|it| it.map(|it| it as i64)));
    let mut rows: Rows = rows.collect();
    rows.sort_unstable_by_key(|row| (row[0], row[1]));
    rows
}

/// The rows in batches of any number, with `a` as a type and `b` a number.
fn batches(random: &mut Random, rows: &Rows, a: &DataType) -> Vec<RecordBatch> {
    let most = [1, 2, 7, 300][random.below(4) as usize];
    let mut batches = vec![];
    let mut from = 0;
    loop {
        let to = rows.len().min(from + random.below(most + 1) as usize);
        batches.push(batch(&rows[from..to], a));
        from = to;
        if from == rows.len() && random.below(3) == 0 {
            return batches;
        }
    }
}

fn batch(rows: &[[Option<i64>; 3]], a: &DataType) -> RecordBatch {
    let column =
        |at: usize| Arc::new(Int64Array::from_iter(rows.iter().map(|row| row[at]))) as ArrayRef;
    let text = |column: &ArrayRef| cast(column, &DataType::Utf8).unwrap();
    let padded = || {
        let texts = rows.iter().map(|row| Some(format!("{:06}", row[0]?)));
        texts.collect::<StringArray>()
    };
    let a = match a {
        DataType::FixedSizeBinary(_) => {
            let values = rows.iter().map(|row| row[0].map(|it| it.to_be_bytes()));
            Arc::new(
                arrow::array::FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 8)
                    .unwrap(),
            )
        }
        // Texts are in the order of the numbers that they are of.
        DataType::Dictionary(_, values) if values.is_string() => cast(&padded(), a).unwrap(),
        a if a.is_string() || a.is_binary() => cast(&padded(), a).unwrap(),
        a => cast(&column(0), a).unwrap(),
    };
    let (b, v) = (column(1), column(2));
    let s = text(&v);
    RecordBatch::try_from_iter_with_nullable([
        ("a", a, true),
        ("b", b, true),
        ("v", v, true),
        ("s", s, true),
    ])
    .unwrap()
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let dictionary = |key, values| Dictionary(Box::new(key), Box::new(values));
    vec![
        Int64,
        UInt8,
        Boolean,
        Decimal128(20, 3),
        Decimal256(40, 3),
        Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        Duration(TimeUnit::Second),
        Date64,
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        BinaryView,
        FixedSizeBinary(8),
        dictionary(Int8, Utf8),
        dictionary(UInt16, Int32),
    ]
}

/// A session over `batches` as the table `t`, which is in order of `a, b` if it is said to be.
fn session(
    batches: Vec<RecordBatch>,
    batch_size: usize,
    memory: usize,
    in_order: bool,
) -> SessionContext {
    let pool = Arc::new(GreedyMemoryPool::new(memory));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .build_arc()
        .unwrap();
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_batch_size(batch_size);
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    let mut table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    if in_order {
        table = table.with_sort_order(vec![vec![
            col("a").sort(true, true),
            col("b").sort(true, true),
        ]]);
    }
    ctx.register_table("t", Arc::new(table)).unwrap();
    ctx
}

async fn stock_plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.sql(sql)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap()
}

/// A plan in which all of its aggregations are replaced.
async fn sorted_plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let plan = stock_plan(ctx, sql).await;
    let replaced = plan.transform_up(|plan| {
        let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
            return Ok(Transformed::no(plan));
        };
        let order = KeyOrder::of(aggregate, &"t".into())?;
        let sorted = SortedAggregateExec::in_place_of(aggregate, Some(order))?;
        let sorted = sorted.unwrap_or_else(|| panic!("{sql}: {aggregate:?}"));
        Ok(Transformed::yes(Arc::new(sorted) as _))
    });
    let replaced = replaced.data().unwrap();
    assert!(
        shown(&replaced).contains("SortedAggregateExec"),
        "{}",
        shown(&replaced)
    );
    replaced
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// The rows that a plan gives, after a look at its batches.
async fn rows_of(ctx: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Vec<Vec<String>> {
    let most = ctx.copied_config().batch_size();
    let format = FormatOptions::default().with_null("NULL");
    let schema = plan.schema();
    let is_scan = plan.children().is_empty();
    let mut rows = vec![];
    for batch in collect(plan, ctx.task_ctx()).await.unwrap() {
        assert_eq!(batch.schema(), schema);
        // A scan gives the batches that it has.
        let rows_in_batch = batch.num_rows();
        assert!(
            is_scan || (1..=most).contains(&rows_in_batch),
            "{rows_in_batch} rows"
        );
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|it| ArrayFormatter::try_new(it, &format).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            columns
                .iter()
                .map(|it| it.value(row).to_string())
                .collect::<Vec<_>>()
        }));
    }
    rows
}

/// The groups in order of their first rows, by a table of all keys: `keys, count(*), count(v) of v > 20, sum(v), min(v)`.
async fn by_brute_force(ctx: &SessionContext, keys: &[usize]) -> Vec<Vec<String>> {
    let all = rows_of(ctx, stock_plan(ctx, "SELECT a, b, v FROM t").await).await;
    let mut order = vec![];
    let mut groups: HashMap<Vec<String>, Vec<Option<i64>>> = HashMap::new();
    for row in all {
        let key: Vec<_> = keys.iter().map(|&key| row[key].clone()).collect();
        let values = groups.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            vec![]
        });
        values.push(row[2].parse().ok());
    }
    let row = |key: Vec<String>| {
        let values = &groups[&key];
        let known = || values.iter().flatten().copied();
        let show =
            |value: Option<i64>| value.map_or_else(|| "NULL".into(), |value| value.to_string());
        let more = known().filter(|&v| v > 20).count();
        let sum = known().next().map(|_| known().sum());
        let numbers = [
            values.len().to_string(),
            more.to_string(),
            show(sum),
            show(known().min()),
        ];
        key.into_iter().chain(numbers).collect()
    };
    order.into_iter().map(row).collect()
}

#[tokio::test]
async fn groups_are_those_of_brute_force() {
    let seed = 55;
    let mut random = Random::new(seed);
    for case in 0..160 {
        let types = types();
        let a = &types[case % types.len()];
        let mut rows = random_rows(&mut random);
        if *a == DataType::Boolean {
            for row in &mut rows {
                row[0] = row[0].map(|it| it % 2);
            }
            rows.sort_by_key(|row| (row[0], row[1]));
        }
        let batches = batches(&mut random, &rows, a);
        let batch_size = [1, 2, 5, 64, 8192][random.below(5) as usize];
        let ctx = session(batches, batch_size, usize::MAX, true);
        let values = "count(*), count(v) FILTER (WHERE v > 20), sum(v), min(v)";
        for (keys, columns) in [("a", &[0][..]), ("a, b", &[0, 1]), ("b, a", &[1, 0])] {
            let expected = by_brute_force(&ctx, columns).await;
            let about =
                format!("seed {seed}, case {case}, {a}, keys {keys}, batches of {batch_size}");
            let sql = format!("SELECT {keys}, {values} FROM t GROUP BY {keys}");
            let plan = sorted_plan(&ctx, &sql).await;
            assert_eq!(rows_of(&ctx, plan).await, expected, "{about}");

            let plan = sorted_plan(&ctx, &format!("SELECT DISTINCT {keys} FROM t")).await;
            let keys = expected
                .into_iter()
                .map(|row| row[..columns.len()].to_vec());
            assert_eq!(
                rows_of(&ctx, plan).await,
                keys.collect::<Vec<_>>(),
                "{about}"
            );
        }
    }
}

/// Each with state of another kind, which is given out while more groups come.
const AGGREGATES: [&str; 18] = [
    "avg(v)",
    "max(s)",
    "min(s)",
    "count(DISTINCT v)",
    "first_value(v ORDER BY s DESC, v)",
    "last_value(v ORDER BY s)",
    "array_agg(v)",
    "array_agg(s) FILTER (WHERE v > 10)",
    "string_agg(s, ',')",
    "stddev(v)",
    "corr(v, b)",
    "bool_and(v > 3)",
    "bit_xor(v)",
    "avg(CAST(v AS DECIMAL(20, 2)))",
    "sum(CAST(v AS DOUBLE)) FILTER (WHERE v > 10)",
    "count(s) FILTER (WHERE v IS NULL)",
    "var_pop(v)",
    "min(CAST(CAST(v AS INT) AS DATE))",
];

#[tokio::test]
async fn aggregates_are_those_of_the_hash_table() {
    let seed = 7;
    let mut random = Random::new(seed);
    for case in 0..20 {
        let rows = random_rows(&mut random);
        let batches = batches(&mut random, &rows, &DataType::Int64);
        let batch_size = [1, 4, 8192][random.below(3) as usize];
        let sorted = session(batches.clone(), batch_size, usize::MAX, true);
        let stock = session(batches, 8192, usize::MAX, false);
        for aggregate in AGGREGATES {
            let sql = format!("SELECT a, {aggregate}, count(*) FROM t GROUP BY a");
            let actual = rows_of(&sorted, sorted_plan(&sorted, &sql).await).await;
            let mut expected = rows_of(&stock, stock_plan(&stock, &sql).await).await;
            // Those of the sorted table are in order.
            let place = |row: &Vec<String>| row[0].parse::<i64>().ok();
            expected.sort_by_key(place);
            assert_eq!(actual, expected, "seed {seed}, case {case}, {sql}");
        }
    }
}

/// Many groups of one row each.
fn distinct_rows(rows: i64) -> Vec<RecordBatch> {
    let rows: Rows = (0..rows)
        .map(|row| [Some(row), Some(1), Some(row)])
        .collect();
    rows.chunks(1000)
        .map(|rows| batch(rows, &DataType::Int64))
        .collect()
}

#[tokio::test]
async fn memory_is_that_of_a_batch_of_groups() {
    let rows = distinct_rows(200_000);
    let sql = "SELECT a, count(*), sum(v), max(s) FROM t GROUP BY a";
    let small = session(rows.clone(), 1000, 1 << 20, true);
    let plan = sorted_plan(&small, sql).await;
    let batches = collect(Arc::clone(&plan), small.task_ctx()).await.unwrap();
    assert_eq!(
        batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
        200_000
    );
    assert_eq!(small.runtime_env().memory_pool.reserved(), 0);
    let metrics = plan.metrics().unwrap();
    assert_eq!(metrics.output_rows(), Some(200_000));
    assert!(metrics.elapsed_compute().is_some_and(|time| time > 0));

    // Where there is less, what is complete goes out.
    let smaller = session(rows, 1000, 10_000, true);
    let plan = sorted_plan(&smaller, sql).await;
    assert_eq!(rows_of(&smaller, plan).await.len(), 200_000);

    // What is held is counted.
    let one_group: Rows = (0..20_000)
        .map(|row| [Some(1), Some(1), Some(row)])
        .collect();
    let one_group = one_group.chunks(1000);
    let one_group = one_group
        .map(|rows| batch(rows, &DataType::Int64))
        .collect();
    let smaller = session(one_group, 1000, 10_000, true);
    let plan = sorted_plan(&smaller, "SELECT a, array_agg(v) FROM t GROUP BY a").await;
    let error = collect(plan, smaller.task_ctx()).await.unwrap_err();
    assert!(
        matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
        "{error}"
    );
    assert!(error.to_string().contains("SortedAggregateExec"), "{error}");
}

/// In each place of a batch and between batches, up and down, with NULL at either end.
#[tokio::test]
async fn keys_in_another_order_are_an_error() {
    let key = |number: i64| Some(number).filter(|it| *it >= 0);
    for (keys, is_false) in [
        ([-1, 1, 1, 2, 3, 3], false),
        ([-1, -1, 2, 2, 2, 2], false),
        ([-1, 1, 3, 2, 4, 5], true),
        ([-1, 1, 2, 3, 4, 3], true),
        ([2, 1, 2, 3, 4, 5], true),
        ([1, 1, -1, 3, 4, 5], true),
        ([1, 1, 2, 2, 3, -1], true),
    ] {
        for second in [false, true] {
            for batch_rows in [1, 2, 3, 6] {
                let row = |&number: &i64| match second {
                    false => [key(number), Some(1), Some(1)],
                    true => [Some(1), key(number), Some(1)],
                };
                let rows: Rows = keys.iter().map(row).collect();
                let rows = rows.chunks(batch_rows);
                let rows = rows.map(|rows| batch(rows, &DataType::Int64)).collect();
                let ctx = session(rows, 8192, usize::MAX, true);
                let plan = sorted_plan(&ctx, "SELECT b, a, count(*) FROM t GROUP BY b, a").await;
                let result = collect(plan, ctx.task_ctx()).await;
                let about = format!("{keys:?} {second} {batch_rows}");
                match is_false {
                    false => assert!(result.is_ok(), "{about}"),
                    true => {
                        let error = result.unwrap_err();
                        let broken = FalseOrder::of(&error).expect(&about);
                        assert_eq!(&*broken.table, "t");
                        assert_eq!(broken.order, "a@0 ASC, b@1 ASC", "{about}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_descent_is_told_for_each_kind_of_order() {
    let array = |values: [Option<i64>; 6]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let before = array([Some(1), Some(2), Some(2), None, Some(2), None]);
    let after = array([Some(2), Some(1), Some(2), Some(2), None, None]);
    for (descending, nulls_first, expected) in [
        (false, true, [false, true, false, false, true, false]),
        (false, false, [false, true, false, true, false, false]),
        (true, true, [true, false, false, false, true, false]),
        (true, false, [true, false, false, true, false, false]),
    ] {
        let options = SortOptions::new(descending, nulls_first);
        let actual = descends(&before, &after, options).unwrap();
        assert_eq!(actual.iter().collect::<Vec<_>>(), expected, "{options:?}");
    }
}

#[tokio::test]
async fn large_states_do_not_wait_for_more_groups() {
    // 400 groups of 1,000 numbers each.
    let rows: Rows = (0..400_000)
        .map(|row| [Some(row / 1000), Some(1), Some(row)])
        .collect();
    let rows: Vec<_> = rows
        .chunks(1000)
        .map(|rows| batch(rows, &DataType::Int64))
        .collect();
    let ctx = session(rows, 8192, 3 << 19, true);
    let plan = sorted_plan(&ctx, "SELECT a, array_agg(v) FROM t GROUP BY a").await;
    assert_eq!(rows_of(&ctx, plan).await.len(), 400);
}

#[tokio::test]
async fn the_first_groups_come_early() {
    let rows: Rows = (0..5000)
        .map(|row| [Some(row / 100), Some(1), Some(row)])
        .collect();
    let rows: Vec<_> = rows
        .chunks(100)
        .map(|rows| batch(rows, &DataType::Int64))
        .collect();
    let ctx = session(rows, 16, usize::MAX, true);
    let plan = sorted_plan(&ctx, "SELECT a, count(v) FROM t GROUP BY a").await;
    let batches = collect(plan, ctx.task_ctx()).await.unwrap();
    let sizes: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes, [1, 2, 4, 8, 8, 8, 8, 8, 3]);
}

#[tokio::test]
async fn no_more_than_a_batch_comes_at_once() {
    let rows: Rows = (0..13).map(|row| [Some(row), Some(1), Some(row)]).collect();
    let cuts = [0..2, 2..4, 4..5, 5..9, 9..13];
    let rows: Vec<_> = cuts.map(|cut| batch(&rows[cut], &DataType::Int64)).into();
    let ctx = session(rows, 4, usize::MAX, true);
    let plan = sorted_plan(&ctx, "SELECT a, count(v) FROM t GROUP BY a").await;
    let batches = collect(plan, ctx.task_ctx()).await.unwrap();
    let sizes: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
    // The fifth waits for the next four.
    assert_eq!(sizes, [2, 2, 4, 1, 4]);
}

#[tokio::test]
async fn dictionaries_of_few_keys_are_joined() {
    // 100 values in each batch, and 2,000 in all, of 127 at most.
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let rows: Rows = (0..4000)
        .map(|row| [Some(row / 2), Some(1), Some(row)])
        .collect();
    let rows: Vec<_> = rows
        .chunks(199)
        .map(|rows| batch(rows, &dictionary))
        .collect();
    let ctx = session(rows, 8192, usize::MAX, true);
    let plan = sorted_plan(&ctx, "SELECT a, count(*) FROM t GROUP BY a").await;
    let rows = rows_of(&ctx, plan).await;
    assert_eq!(rows.len(), 2000);
    assert!(rows.iter().all(|row| row[1] == "2"));
}

#[tokio::test]
async fn all_else_is_that_of_the_inner_node() {
    let ctx = session(distinct_rows(10), 8192, usize::MAX, true);
    let sql = "SELECT a, sum(v) AS s FROM t GROUP BY a";
    let plan = sorted_plan(&ctx, sql).await;
    let stock = stock_plan(&ctx, sql).await;
    assert_eq!(shown(&plan).replace("SortedAgg", "Agg"), shown(&stock));
    let tree = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).tree_render().to_string();
    assert!(
        tree(&plan).contains("SortedAggregateExec"),
        "{}",
        tree(&plan)
    );
    assert!(tree(&plan).contains("group_by: a"), "{}", tree(&plan));

    let is_sorted = |plan: &Arc<dyn ExecutionPlan>| plan.is::<SortedAggregateExec>();
    let node = Arc::clone(find(&plan).unwrap());
    let children = || node.children().into_iter().cloned().collect::<Vec<_>>();
    for mode in [
        ChildrenPropertiesMode::Keep,
        ChildrenPropertiesMode::Recompute,
    ] {
        let options = ReplaceChildrenOptions::new(mode);
        let same = Arc::clone(&node)
            .replace_children(children(), options)
            .unwrap();
        assert!(is_sorted(&same));
        assert_eq!(shown(&same), shown(&node));
    }
    assert!(is_sorted(&Arc::clone(&node).reset_state().unwrap()));
    // One that stops early.
    let inner = node.downcast_ref::<SortedAggregateExec>().unwrap();
    let limited = inner
        .aggregate()
        .with_new_limit_options(Some(LimitOptions::new(5)));
    assert!(
        SortedAggregateExec::in_place_of(&limited, None)
            .unwrap()
            .is_none()
    );
    // An input in no order.
    let unsorted = Arc::new(EmptyExec::new(node.children()[0].schema()));
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let other = Arc::clone(&node)
        .replace_children(vec![unsorted], options)
        .unwrap();
    assert!(other.is::<AggregateExec>());
}

fn find(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    match plan.is::<SortedAggregateExec>() {
        true => Some(plan),
        false => plan.children().into_iter().find_map(find),
    }
}
