//! Files and what their footers prove, as columns of a manifest.

use std::sync::Arc;

use arrow::array::{
    Array, BinaryArray, BooleanArray, Int64Array, ListArray, StringArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow::compute::SortOptions;
use arrow::temporal_conversions::timestamp_ns_to_datetime;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::columns::{Columns, to_u32};
use crate::layout::{Bounds, Key};
use crate::proof::{GroupBounds, KeyFacts, Unknown};
use crate::scan::RowGroup;
use crate::snapshot::known_file::{Indexer, KnownFile};

/// Of each file a row: which version it is, where its row groups are, and what is proved of each order.
pub(super) fn columns_of(files: &[Arc<KnownFile>]) -> Result<Columns> {
    let metas = || files.iter().map(|file| &file.meta);
    let modified = metas().map(|meta| {
        let nanos = meta.last_modified.timestamp_nanos_opt();
        nanos.ok_or_else(|| exec_datafusion_err!("{} is of {}", meta.location, meta.last_modified))
    });
    let modified = modified.collect::<Result<Vec<_>>>()?;
    let paths = files.iter().map(|file| to_u32(file.path));
    let columns = Columns::default()
        .with(
            "location",
            StringArray::from_iter_values(metas().map(|meta| &meta.location)),
        )
        .with(
            "size",
            UInt64Array::from_iter_values(metas().map(|meta| meta.size)),
        )
        .with("last_modified", TimestampNanosecondArray::from(modified))
        .with(
            "e_tag",
            metas()
                .map(|meta| meta.e_tag.as_deref())
                .collect::<StringArray>(),
        )
        .with(
            "version",
            metas()
                .map(|meta| meta.version.as_deref())
                .collect::<StringArray>(),
        )
        .with(
            "path",
            UInt32Array::from(paths.collect::<Result<Vec<_>>>()?),
        )
        .with("row_groups", row_groups(files)?)
        .with("claimed", claimed(files)?)
        .with("facts", facts(files)?);
    Ok(columns)
}

fn row_groups(files: &[Arc<KnownFile>]) -> Result<ListArray> {
    let all = || files.iter().flat_map(|file| file.row_groups.iter());
    Columns::default()
        .with(
            "start",
            Int64Array::from_iter_values(all().map(|it| it.start)),
        )
        .with(
            "compressed",
            UInt64Array::from_iter_values(all().map(|it| it.compressed)),
        )
        .with(
            "decoded",
            UInt64Array::from_iter_values(all().map(|it| it.decoded)),
        )
        .with(
            "rows",
            UInt64Array::from_iter_values(all().map(|it| it.rows)),
        )
        .with(
            "most_pages",
            UInt32Array::from_iter_values(all().map(|it| it.most_pages)),
        )
        .into_lists(files.iter().map(|file| file.row_groups.len()))
}

fn claimed(files: &[Arc<KnownFile>]) -> Result<ListArray> {
    let all = || files.iter().flat_map(|file| file.claimed.iter());
    let columns = all().map(|sort| match sort.expr.downcast_ref::<Column>() {
        Some(column) => to_u32(column.index()),
        None => exec_err!("{} is no column", sort.expr),
    });
    let flags = |flag: fn(&SortOptions) -> bool| {
        BooleanArray::from_iter(all().map(|sort| Some(flag(&sort.options))))
    };
    Columns::default()
        .with(
            "column",
            UInt32Array::from(columns.collect::<Result<Vec<_>>>()?),
        )
        .with("descending", flags(|options| options.descending))
        .with("nulls_first", flags(|options| options.nulls_first))
        .into_lists(files.iter().map(|file| file.claimed.len()))
}

fn facts(files: &[Arc<KnownFile>]) -> Result<ListArray> {
    let all = || files.iter().flat_map(|file| file.facts.iter());
    let unknown = || all().map(|facts| facts.bounds.as_ref().err());
    let null_free = all().map(|facts| {
        facts
            .null_free
            .iter()
            .map(|&it| u8::from(it))
            .collect::<Vec<_>>()
    });
    Columns::default()
        .with(
            "unknown",
            unknown()
                .map(|it| Some(it?.why.as_str()))
                .collect::<StringArray>(),
        )
        .with(
            "may_be_reordered",
            unknown()
                .map(|it| Some(it?.may_be_reordered))
                .collect::<BooleanArray>(),
        )
        .with("null_free", null_free.map(Some).collect::<BinaryArray>())
        .with(
            "groups_in_order",
            BooleanArray::from_iter(all().map(|facts| Some(facts.groups_in_order))),
        )
        .with(
            "contradiction",
            all()
                .map(|facts| facts.contradiction.as_deref())
                .collect::<StringArray>(),
        )
        .with("groups", groups(&all().collect::<Vec<_>>())?)
        .into_lists(files.iter().map(|file| file.facts.len()))
}

fn groups(facts: &[&KeyFacts]) -> Result<ListArray> {
    let all = || facts.iter().flat_map(|facts| facts.groups.iter());
    let groups = all().map(|group| to_u32(group.group));
    let columns = all().map(|group| to_u32(group.bounds.lower().columns()));
    let keys = |key: fn(&Bounds) -> &Key| {
        BinaryArray::from_iter(all().map(|group| Some(key(&group.bounds).data())))
    };
    Columns::default()
        .with(
            "group",
            UInt32Array::from(groups.collect::<Result<Vec<_>>>()?),
        )
        .with(
            "columns",
            UInt32Array::from(columns.collect::<Result<Vec<_>>>()?),
        )
        .with("lower", keys(Bounds::lower))
        .with("upper", keys(Bounds::upper))
        .into_lists(facts.iter().map(|facts| facts.groups.len()))
}

/// The files that `columns` are of.
///
/// # Errors
/// If they are not what [`columns_of`] makes.
pub(super) fn files_of(columns: &Columns, indexer: &Indexer) -> Result<Vec<Arc<KnownFile>>> {
    let metas = metas(columns)?;
    let paths: &UInt32Array = columns.need("path")?;
    let mut row_groups = row_groups_of(columns)?.into_iter();
    let mut claimed = claimed_of(columns, indexer)?.into_iter();
    let mut facts = facts_of(columns)?.into_iter();
    let mut files: Vec<Arc<KnownFile>> = Vec::with_capacity(metas.len());
    for (meta, &path) in metas.into_iter().zip(paths.values()) {
        if files
            .last()
            .is_some_and(|last| last.meta.location >= meta.location)
        {
            return exec_err!("{} is not in its place", meta.location);
        }
        let claimed = claimed.next().unwrap_or_default();
        let facts = facts.next().unwrap_or_default();
        let orders = indexer.orders(&claimed, facts.len());
        if orders.len() != facts.len() {
            return exec_err!("{} has facts of other orders", meta.location);
        }
        let mut file = KnownFile {
            partition_values: indexer.partition_values(&meta, path as usize)?,
            meta,
            path: path as usize,
            row_groups: row_groups.next().unwrap_or_default().into(),
            claimed: claimed.into(),
            orders,
            facts: facts.into(),
        };
        if let Some(before) = files.last() {
            file.share_with(before);
        }
        files.push(Arc::new(file));
    }
    Ok(files)
}

fn metas(columns: &Columns) -> Result<Vec<ObjectMeta>> {
    let locations: &StringArray = columns.need("location")?;
    let sizes: &UInt64Array = columns.need("size")?;
    let modified: &TimestampNanosecondArray = columns.need("last_modified")?;
    let e_tags: &StringArray = columns.need("e_tag")?;
    let versions: &StringArray = columns.need("version")?;
    let text = |array: &StringArray, file| array.is_valid(file).then(|| array.value(file).into());
    let meta = |file: usize| {
        let modified = timestamp_ns_to_datetime(modified.value(file));
        let modified = modified.ok_or_else(|| exec_datafusion_err!("a time that is none"))?;
        let location = Path::parse(locations.value(file));
        Ok(ObjectMeta {
            location: location.map_err(|e| DataFusionError::External(e.into()))?,
            last_modified: modified.and_utc(),
            size: sizes.value(file),
            e_tag: text(e_tags, file),
            version: text(versions, file),
        })
    };
    (0..locations.len()).map(meta).collect()
}

fn row_groups_of(columns: &Columns) -> Result<Vec<Vec<RowGroup>>> {
    let (files, groups) = columns.lists("row_groups")?;
    let start: &Int64Array = groups.need("start")?;
    let compressed: &UInt64Array = groups.need("compressed")?;
    let decoded: &UInt64Array = groups.need("decoded")?;
    let rows: &UInt64Array = groups.need("rows")?;
    let most_pages: &UInt32Array = groups.need("most_pages")?;
    let group = |row: usize| RowGroup {
        start: start.value(row),
        compressed: compressed.value(row),
        decoded: decoded.value(row),
        rows: rows.value(row),
        most_pages: most_pages.value(row),
    };
    Ok(files
        .into_iter()
        .map(|rows| rows.map(group).collect())
        .collect())
}

fn claimed_of(columns: &Columns, indexer: &Indexer) -> Result<Vec<Vec<PhysicalSortExpr>>> {
    let (files, sorts) = columns.lists("claimed")?;
    let column: &UInt32Array = sorts.need("column")?;
    let descending: &BooleanArray = sorts.need("descending")?;
    let nulls_first: &BooleanArray = sorts.need("nulls_first")?;
    let fields = indexer.table.table_schema().fields();
    let sort = |row: usize| {
        let index = column.value(row) as usize;
        let field = fields
            .get(index)
            .ok_or_else(|| exec_datafusion_err!("the table has no column {index}"))?;
        Ok(PhysicalSortExpr::new(
            Arc::new(Column::new(field.name(), index)),
            SortOptions::new(descending.value(row), nulls_first.value(row)),
        ))
    };
    let files = files.into_iter();
    files.map(|rows| rows.map(sort).collect()).collect()
}

fn facts_of(columns: &Columns) -> Result<Vec<Vec<KeyFacts>>> {
    let (files, facts) = columns.lists("facts")?;
    let unknown: &StringArray = facts.need("unknown")?;
    let may_be_reordered: &BooleanArray = facts.need("may_be_reordered")?;
    let null_free: &BinaryArray = facts.need("null_free")?;
    let groups_in_order: &BooleanArray = facts.need("groups_in_order")?;
    let contradiction: &StringArray = facts.need("contradiction")?;
    let mut groups = groups_of(&facts)?;
    let mut of_row = |row: usize| {
        let groups = std::mem::take(&mut groups[row]);
        let whole = || {
            groups
                .iter()
                .map(|group| group.bounds.clone())
                .reduce(Bounds::union)
        };
        Ok(KeyFacts {
            bounds: match unknown.is_valid(row) {
                true => Err(Unknown {
                    why: unknown.value(row).into(),
                    may_be_reordered: may_be_reordered.value(row),
                }),
                false => Ok(whole().ok_or_else(|| exec_datafusion_err!("bounds of nothing"))?),
            },
            null_free: null_free.value(row).iter().map(|&it| it == 1).collect(),
            groups_in_order: groups_in_order.value(row),
            contradiction: contradiction
                .is_valid(row)
                .then(|| contradiction.value(row).into()),
            groups: groups.into(),
        })
    };
    let files = files.into_iter();
    files.map(|rows| rows.map(&mut of_row).collect()).collect()
}

fn groups_of(facts: &Columns) -> Result<Vec<Vec<GroupBounds>>> {
    let (of_facts, groups) = facts.lists("groups")?;
    let group: &UInt32Array = groups.need("group")?;
    let columns: &UInt32Array = groups.need("columns")?;
    let lower: &BinaryArray = groups.need("lower")?;
    let upper: &BinaryArray = groups.need("upper")?;
    let of_row = |row: usize| {
        let key = |keys: &BinaryArray| Key::of_data(keys.value(row), columns.value(row));
        let bounds = key(lower).zip(key(upper));
        let bounds = bounds.and_then(|(lower, upper)| Bounds::try_new(lower, upper));
        Ok(GroupBounds {
            group: group.value(row) as usize,
            bounds: bounds.ok_or_else(|| exec_datafusion_err!("bounds that are none"))?,
        })
    };
    let of_facts = of_facts.into_iter();
    of_facts.map(|rows| rows.map(of_row).collect()).collect()
}
