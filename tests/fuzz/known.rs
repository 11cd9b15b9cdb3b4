//! What DataFusion 55.2 gets wrong by itself, with its own `ListingTable` too: no cases are made of it.
//!
//! When this can be shorter after an upgrade, that is good news.

use datafusion::error::DataFusionError;

use crate::query::{Kind, Query};
use crate::session::Session;
use crate::table::Table;

/// Options for tables with NaN.
pub(crate) const FOR_NAN: [(&str, &str); 4] = [
    // It prunes by minima and maxima, which leave NaN out. A file of `[NaN, 0.0]` has no row for it where `f > 0`, or
    // below a TopK.
    ("datafusion.execution.parquet.pruning", "false"),
    ("datafusion.execution.parquet.enable_page_index", "false"),
    // Row groups are pruned by dynamic filters even so.
    (
        "datafusion.optimizer.enable_dynamic_filter_pushdown",
        "false",
    ),
    // Its `TopKHashTable` panics when there are more NaNs than the limit of `GROUP BY f ORDER BY f LIMIT 3`.
    ("datafusion.optimizer.enable_topk_aggregation", "false"),
];

/// Whether the answer is wrong whatever the table is.
pub(crate) fn is_wrong_upstream(t: &Table, session: &Session, query: &Query) -> bool {
    // It sorts `-0.0` before `0.0`, and compares them as equal: a TopK whose worst row has the key `0.0` leaves out
    // those with `-0.0`.
    let limited = query.fetch.is_some() || query.kind == Kind::Limited;
    if limited && t.has_both_zeros() {
        return true;
    }
    // `DISTINCT` makes `0.0` of `-0.0`, and the join that an INTERSECT or EXCEPT is takes them for different.
    let sql = query.sql();
    if ["INTERSECT", "EXCEPT"].iter().any(|set| sql.contains(set)) && t.has_negative_zero() {
        return true;
    }
    // Grouping makes `0.0` of `-0.0` too: rows that came after one of them are in another order then than it claims.
    let groups = matches!(
        query.kind,
        Kind::Distinct | Kind::GroupByKey | Kind::GroupByOther
    );
    // And its hash join takes them for different, while its merge join does not.
    if (groups || query.kind == Kind::Join) && t.has_both_zeros() {
        return true;
    }
    // It takes a column for constant that is filtered to be equal to a zero, and sorts by the others only.
    let is_fixed = [" BETWEEN ", " = $"]
        .iter()
        .any(|filter| sql.contains(filter));
    if is_fixed && t.has_both_zeros() {
        return true;
    }
    // It casts what a pushed down filter leaves out too, which need not be text.
    if sql.contains("AS VARCHAR)") && t.has_binary() && session.sets("pushdown_filters") {
        return true;
    }
    // It says that `date_trunc` keeps the order, and it overflows at the ends of its type.
    if sql.contains("date_trunc") && t.has_extreme_timestamps() {
        return true;
    }
    // Its merge join compares NaN of semi and anti joins with a partner that is not there, and panics.
    let joins = matches!(query.kind, Kind::Join | Kind::Union);
    if joins && t.has_nan() && session.sets("prefer_hash_join") {
        return true;
    }
    // It takes files grouped by folder for hash partitioned, and joins them with what really is.
    joins && t.hive_column().is_some() && session.sets("preserve_file_partitions")
}

/// Whether a wrong plan is of DataFusion's nodes alone: one that merges by the beginning of an order, and believes that the
/// merge keeps all of it, so that a later sort is dropped.
pub(crate) fn is_fault_of_merge(plan: &str) -> bool {
    let ours = ["SortedScan", "UnorderedScan", "SequenceExec"];
    plan.contains("SortPreservingMergeExec") && !ours.iter().any(|node| plan.contains(node))
}

/// Whether a wrong plan has a merge join of DataFusion's choice that claims an order which it does not keep: rows of an
/// outer join that a filter leaves without a partner come late.
pub(crate) fn is_fault_of_merge_join(session: &Session, plan: &str) -> bool {
    let mut lines = plan.lines();
    session.sets("prefer_hash_join")
        && lines.any(|line| line.contains("SortMergeJoinExec") && line.contains(", filter="))
}

/// Whether a wrong plan has a TopK of DataFusion's below an aggregation: of `SELECT DISTINCT … ORDER BY … LIMIT 2`, the first
/// two rows may be the same, and then there are fewer groups.
pub(crate) fn is_fault_of_topk(plan: &str) -> bool {
    let lines: Vec<_> = plan.lines().collect();
    lines.windows(2).any(|pair| {
        pair[0].contains("AggregateExec: ") && pair[1].contains("SortExec: TopK(fetch=")
    })
}

/// Whether a query fails whatever the table is.
pub(crate) fn is_refused_upstream(error: &DataFusionError) -> bool {
    // Semi and anti joins of types that other joins know.
    let message = error.strip_backtrace();
    message.contains("Unsupported data type in sort merge join comparator")
}
