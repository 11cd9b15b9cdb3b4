//! Cases that went wrong, as text.

use std::fmt::Write;

use crate::case::FailureKind;
use crate::register::{ddl, order_text};
use crate::shape::Shape;
use crate::shrink::Shrunk;
use crate::store::{path_of, text};
use crate::table::{DataFile, Declared, Table};

pub(crate) fn show(seed: u64, shrunk: &Shrunk) -> String {
    let found = &shrunk.found;
    let failure = &found.failure;
    let mut out = String::new();
    let (wrong, runs) = shrunk.wrong;
    let _ = writeln!(
        out,
        "---- seed {seed}, wrong in {wrong} of {runs} runs, shrunk to:"
    );
    show_table(&mut out, "t", &found.tables.t);
    if let Some(u) = &found.tables.u {
        show_table(&mut out, "u", u);
    }
    for (option, value) in &found.session.options {
        let _ = writeln!(out, "SET {option} = '{value}'");
    }
    if found.session.manifests {
        let _ = writeln!(out, "tables have manifests");
    }
    if let Some(bytes) = found.session.memory {
        let _ = writeln!(out, "a memory pool of {bytes} bytes");
    }
    let _ = writeln!(out, "{}", found.query.sql());
    for (index, value) in found.query.params.iter().enumerate() {
        let _ = writeln!(out, "    ${} = {value:?}", index + 1);
    }
    let _ = writeln!(out, "{:?}: {}", failure.kind, failure.what);
    if failure.kind == FailureKind::Answer {
        let _ = writeln!(out, "found\n{}", failure.found);
    }
    let without_limit = match found.query.is_limited() {
        true => ", without the limit",
        false => "",
    };
    let _ = writeln!(out, "right{without_limit}\n{}", failure.right);
    let _ = writeln!(out, "{}", failure.plan);
    for (name, also) in &shrunk.without_us {
        let _ = match also {
            Some(also) => writeln!(out, "{name}: wrong too, {:?}: {}", also.kind, also.what),
            None => writeln!(out, "{name}: right"),
        };
    }
    out
}

fn show_table(out: &mut String, name: &str, table: &Table) {
    match table.declared {
        Declared::Ddl => {
            let _ = writeln!(out, "{}", ddl(name, table));
        }
        Declared::Options | Declared::Footers => {
            let order: Vec<_> = table.key().iter().map(order_text).collect();
            let by = match table.declared {
                Declared::Footers => "the footers of its files",
                _ => "its options",
            };
            let _ = writeln!(
                out,
                "table {name} with the order ({}) by {by}",
                order.join(", ")
            );
        }
    }
    for column in &table.columns {
        let _ = write!(out, "    {} {}", column.name, column.data_type);
        if let Some(other) = &column.other {
            let _ = write!(out, ", in some files {other}");
        }
        let _ = writeln!(
            out,
            "{}",
            if column.hive {
                ", partition column"
            } else {
                ""
            }
        );
    }
    for file in &table.files {
        show_file(out, name, table, file);
    }
}

fn show_file(out: &mut String, name: &str, table: &Table, file: &DataFile) {
    let rows: Vec<_> = file
        .rows
        .iter()
        .map(|row| {
            let columns = table.columns.iter().zip(&row.ranks);
            let values: Vec<_> = columns
                .map(|(column, rank)| text(&column.pool, *rank))
                .collect();
            format!("({}; {})", values.join(", "), row.id)
        })
        .collect();
    let _ = writeln!(out, "  {}: {}", path_of(name, table, file), rows.join(" "));
    let plain = format!("{:?}", Shape::default());
    let shape = format!("{:?}", file.shape);
    // Only what differs from a plain file.
    let differs: Vec<_> = shape
        .split(", ")
        .zip(plain.split(", "))
        .filter(|(shape, plain)| shape != plain)
        .map(|(shape, _)| shape)
        .collect();
    if !differs.is_empty() {
        let _ = writeln!(out, "      {}", differs.join(", "));
    }
}
