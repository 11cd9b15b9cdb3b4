//! Units out of files: whole ones, or runs of adjacent row groups.

use std::ops::Range;

use datafusion::common::Result;
use datafusion::datasource::physical_plan::FileScanConfig;

use crate::layout::{self, Bounds, Cuts, Key, KeyRange, Slice};
use crate::proof::{GroupBounds, KeyFacts, SortKey};
use crate::scan::{self, RowGroup, UnitFacts, are_ascending, bounds_of, cut_to, narrow};
use crate::scan_files::{ListedFile, ScanFiles};

/// A file, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) file: usize,
    /// The row groups that it is, if it is not the whole file.
    pub(crate) groups: Option<Range<usize>>,
}

/// Parts of files, ready to be laid out. Those of a file follow one another.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) parts: Vec<Part>,
    pub(crate) units: Vec<layout::Unit>,
}

impl Parts {
    /// Each file whole.
    pub(crate) fn files(files: &[ListedFile], facts: &[KeyFacts]) -> Self {
        let whole = |file| Part { file, groups: None };
        let parts: Vec<_> = (0..files.len()).map(whole).collect();
        Self::new(parts, files, facts)
    }

    /// Each file cut wherever the bounds of its row groups end before those of the next begin.
    ///
    /// Row groups whose bounds overlap are not cut apart: the file says that they are in order, but not where the one
    /// ends and the next begins.
    pub(crate) fn row_groups(files: &[ListedFile], facts: &[KeyFacts]) -> Self {
        let mut parts = vec![];
        for (file, facts) in facts.iter().enumerate() {
            let is_cut = files[file].file.range.is_none()
                && files[file]
                    .footer()
                    .is_some_and(|footer| are_ascending(footer.row_groups()));
            let starts = starts_of_parts(&facts.groups);
            if !is_cut || starts.len() < 2 {
                parts.push(Part { file, groups: None });
                continue;
            }
            let ends = starts[1..].iter().copied().chain([facts.groups.len()]);
            parts.extend(starts.iter().zip(ends).map(|(&start, end)| Part {
                file,
                groups: Some(facts.groups[start].group..facts.groups[end - 1].group + 1),
            }));
        }
        Self::new(parts, files, facts)
    }

    fn new(parts: Vec<Part>, files: &[ListedFile], facts: &[KeyFacts]) -> Self {
        let follows = |index: usize| {
            let before = index.checked_sub(1)?;
            (parts[before].file == parts[index].file).then_some(before)
        };
        let units = parts
            .iter()
            .enumerate()
            .map(|(index, part)| layout::Unit {
                bounds: part.bounds(facts),
                bytes: part.bytes(files),
                grain: part.grain(files),
                follows: follows(index),
            })
            .collect();
        Self { parts, units }
    }

    /// Whether some file is cut.
    pub(crate) fn any_cut(&self) -> bool {
        self.parts.iter().any(|part| part.groups.is_some())
    }

    /// Joins parts of a file that stand next to each other in a run, and numbers what there is then in key order.
    pub(crate) fn joined(
        self,
        mut slices: Vec<Slice>,
        files: &[ListedFile],
        facts: &[KeyFacts],
    ) -> (Self, Vec<Slice>) {
        let mut joined: Vec<(Part, Option<Bounds>)> = vec![];
        for run in slices.iter_mut().flat_map(|slice| &mut slice.runs) {
            let next_in_file = |a: &usize, b: &usize| self.units[*b].follows == Some(*a);
            let parts = run.chunk_by(next_in_file).map(|parts| {
                let (first, last) = (parts[0], parts[parts.len() - 1]);
                joined.push(self.join(first..last + 1, facts));
                joined.len() - 1
            });
            *run = parts.collect();
        }
        let mut order: Vec<_> = (0..joined.len()).collect();
        let bounds = |index: usize| {
            let bounds = joined[index].1.as_ref();
            bounds.map(|bounds| (bounds.lower(), bounds.upper()))
        };
        order.sort_by_key(|&index| bounds(index));
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new;
        }
        for unit in slices
            .iter_mut()
            .flat_map(|slice| slice.runs.iter_mut().flatten())
        {
            *unit = place[*unit];
        }
        let parts = order.into_iter().map(|old| joined[old].0.clone()).collect();
        (Self::new(parts, files, facts), slices)
    }

    /// The part that adjacent parts of a file are, and its bounds.
    fn join(&self, parts: Range<usize>, facts: &[KeyFacts]) -> (Part, Option<Bounds>) {
        let (first, last) = (&self.parts[parts.start], &self.parts[parts.end - 1]);
        let begins = self.units[parts.start].follows.is_none();
        let ends = self
            .units
            .get(parts.end)
            .is_none_or(|unit| unit.follows.is_none());
        let groups = match (&first.groups, &last.groups) {
            (Some(first), Some(last)) if !(begins && ends) => Some(first.start..last.end),
            _ => None,
        };
        let part = Part {
            file: first.file,
            groups,
        };
        let bounds = part.bounds(facts);
        (part, bounds)
    }

    /// The units of a scan.
    pub(crate) fn scan_units(
        &self,
        files: &[ListedFile],
        facts: &[KeyFacts],
        scan: &FileScanConfig,
    ) -> Result<Vec<scan::Unit>> {
        let unit = |part: &Part| {
            let facts = &facts[part.file];
            let file = scan::Unit {
                file: files[part.file].file.clone(),
                facts: UnitFacts {
                    footer: files[part.file].footer().cloned(),
                    bounds: facts.bounds.as_ref().ok().cloned(),
                    groups: facts.groups.clone(),
                    clip: None,
                },
            };
            match &part.groups {
                Some(groups) => cut_to(file, groups.clone(), scan),
                None => Ok(file),
            }
        };
        self.parts.iter().map(unit).collect()
    }

    /// The number of parts that have rows outside of the range of their slice.
    pub(crate) fn count_across(&self, slices: &[Slice], cuts: &Cuts) -> usize {
        let across = |(slice, unit): &(usize, usize)| !self.is_within(*unit, &cuts.range(*slice));
        units_of(slices).filter(across).count()
    }

    /// Cuts `units`, which are these parts, down to the ranges of their slices. A part is in one slice only.
    pub(crate) fn narrow(
        &self,
        units: Vec<scan::Unit>,
        slices: &[Slice],
        cuts: &Cuts,
        key: &SortKey,
        files: &ScanFiles,
        scan: &FileScanConfig,
    ) -> Result<Vec<scan::Unit>> {
        let mut units = units;
        for (slice, unit) in units_of(slices) {
            let range = cuts.range(slice);
            if self.is_within(unit, &range) {
                continue;
            }
            units[unit] = files.view(self.parts[unit].file, |file| {
                narrow(units[unit].clone(), &range, key, file, scan)
            })?;
        }
        Ok(units)
    }

    fn is_within(&self, unit: usize, range: &KeyRange) -> bool {
        let bounds = self.units[unit].bounds.as_ref();
        bounds.is_some_and(|bounds| range.contains(bounds))
    }

    /// Whether no value of the first column of a key, of which `facts` are known, is in one slice and in the next.
    pub(crate) fn separate(&self, slices: &[Slice], facts: &[KeyFacts]) -> bool {
        let of_slice = |slice: &Slice| {
            let units = slice.runs.iter().flatten();
            let bounds = units.map(|&unit| self.parts[unit].bounds(facts));
            bounds.reduce(|a, b| Some(a?.union(b?))).flatten()
        };
        let bounds: Vec<_> = slices.iter().map(of_slice).collect();
        let separate = |pair: &[Option<Bounds>]| {
            let (a, b) = (pair[0].as_ref(), pair[1].as_ref());
            a.zip(b)
                .is_some_and(|(a, b)| a.upper().prefix(1) < b.lower().prefix(1))
        };
        bounds.windows(2).all(separate)
    }

    /// Whether `run`, in the order it has, is in the order of another key, of which `facts` are known.
    pub(crate) fn is_run_of(&self, run: &[usize], facts: &[KeyFacts]) -> bool {
        let in_order = |pair: &[usize]| {
            let (a, b) = (&self.parts[pair[0]], &self.parts[pair[1]]);
            let same_file = a.file == b.file
                && a.groups
                    .as_ref()
                    .zip(b.groups.as_ref())
                    .is_some_and(|(a, b)| a.end <= b.start);
            let bounds = a.bounds(facts).zip(b.bounds(facts));
            same_file || bounds.is_some_and(|(a, b)| a.ends_before(&b))
        };
        run.windows(2).all(in_order)
    }
}

/// Each unit, with its slice.
fn units_of(slices: &[Slice]) -> impl Iterator<Item = (usize, usize)> {
    let slices = slices.iter().enumerate();
    slices.flat_map(|(slice, of)| of.runs.iter().flatten().map(move |&unit| (slice, unit)))
}

/// The places among `groups` at which all that came before ends before all that comes begins.
fn starts_of_parts(groups: &[GroupBounds]) -> Vec<usize> {
    let mut starts = vec![];
    let mut reach: Option<&Key> = None;
    for (place, GroupBounds { bounds, .. }) in groups.iter().enumerate() {
        if reach.is_none_or(|reach| reach <= bounds.lower()) {
            starts.push(place);
        }
        reach = reach.max(Some(bounds.upper()));
    }
    starts
}

impl Part {
    fn bounds(&self, facts: &[KeyFacts]) -> Option<Bounds> {
        let facts = &facts[self.file];
        let whole = || facts.bounds.as_ref().ok().cloned();
        match &self.groups {
            Some(groups) => bounds_of(&facts.groups, groups).or_else(whole),
            None => whole(),
        }
    }

    /// About what has to be read of it to read any of its rows: a page of each column in its largest row group, or where
    /// it is not known where pages are, all of that.
    fn grain(&self, files: &[ListedFile]) -> u64 {
        let file = &files[self.file];
        let Some(footer) = file.footer() else {
            return file.file.effective_size();
        };
        let all = footer.row_groups();
        let groups = self.groups.clone().unwrap_or(0..all.len());
        let pages = |group: &RowGroup| match footer.whole() {
            Some(_) => group.most_pages.max(1),
            None => 1,
        };
        let of_group = |group: &RowGroup| group.compressed / u64::from(pages(group));
        all[groups].iter().map(of_group).max().unwrap_or(0)
    }

    /// Its size in the file.
    fn bytes(&self, files: &[ListedFile]) -> u64 {
        let file = &files[self.file];
        match (&self.groups, file.footer()) {
            (Some(groups), Some(footer)) => footer.row_groups()[groups.clone()]
                .iter()
                .map(|group| group.compressed)
                .sum(),
            _ => file.file.effective_size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_where_nothing_before_reaches_further() {
        let groups = |bounds: &[(u8, u8)]| {
            let group = |(group, &(lower, upper)): (usize, &(u8, u8))| GroupBounds {
                group,
                bounds: Bounds::try_new(Key::new([&[lower][..]]), Key::new([&[upper][..]]))
                    .unwrap(),
            };
            bounds.iter().enumerate().map(group).collect::<Vec<_>>()
        };
        assert_eq!(
            starts_of_parts(&groups(&[(0, 1), (1, 2), (5, 9)])),
            [0, 1, 2]
        );
        assert_eq!(
            starts_of_parts(&groups(&[(0, 9), (1, 2), (3, 4), (9, 9)])),
            [0, 3]
        );
        assert!(starts_of_parts(&[]).is_empty());
    }
}
