//! What is known of one thing in many files, without an object for each.

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue};

/// A value of each file, like its minimum of a column, as an array. Some may not be known.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) array: ArrayRef,
    pub(super) known: Vec<Known>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Absent,
    Inexact,
    Exact,
}

impl Values {
    /// The values of files in turn. Those of another type than `data_type` are left out.
    pub(super) fn new<'a>(
        values: impl Iterator<Item = &'a Precision<ScalarValue>>,
        data_type: &DataType,
    ) -> Result<Self> {
        let null = ScalarValue::try_from(data_type)?;
        let (scalars, known): (Vec<_>, Vec<_>) = values
            .map(|value| match value {
                Precision::Exact(value) if &value.data_type() == data_type => (value, Known::Exact),
                Precision::Inexact(value) if &value.data_type() == data_type => {
                    (value, Known::Inexact)
                }
                _ => (&null, Known::Absent),
            })
            .unzip();
        let array = match scalars.is_empty() {
            true => new_null_array(data_type, 0),
            false => ScalarValue::iter_to_array(scalars.into_iter().cloned())?,
        };
        Ok(Self { array, known })
    }

    pub(super) fn get(&self, file: usize) -> Result<Precision<ScalarValue>> {
        let value = || ScalarValue::try_from_array(&self.array, file);
        Ok(match self.known[file] {
            Known::Absent => Precision::Absent,
            Known::Inexact => Precision::Inexact(value()?),
            Known::Exact => Precision::Exact(value()?),
        })
    }

    /// The values at `places`, which are each a part and a file of it.
    pub(super) fn pick(parts: &[&Self], places: &[(usize, usize)]) -> Result<Self> {
        let arrays: Vec<_> = parts.iter().map(|part| &part.array).collect();
        Ok(Self {
            array: pick_array(&arrays, places)?,
            known: places
                .iter()
                .map(|&(part, file)| parts[part].known[file])
                .collect(),
        })
    }
}

/// The values at `places`, which are each an array and an index of it.
pub(super) fn pick_array(arrays: &[&ArrayRef], places: &[(usize, usize)]) -> Result<ArrayRef> {
    let arrays: Vec<_> = arrays.iter().map(|array| array.as_ref()).collect();
    Ok(interleave(&arrays, places)?)
}

/// A number of each file, like how many of its rows are NULL in a column.
#[derive(Debug)]
pub(super) enum Counts {
    Same(Precision<usize>),
    Each(Vec<Precision<usize>>),
}

impl Counts {
    pub(super) fn new(counts: impl Iterator<Item = Precision<usize>>) -> Self {
        let counts: Vec<_> = counts.collect();
        match counts.first() {
            None => Self::Same(Precision::Absent),
            Some(first) if counts.iter().all(|count| count == first) => Self::Same(*first),
            Some(_) => Self::Each(counts),
        }
    }

    pub(super) fn get(&self, file: usize) -> Precision<usize> {
        match self {
            Self::Same(count) => *count,
            Self::Each(counts) => counts[file],
        }
    }

    pub(super) fn pick(parts: &[&Self], places: &[(usize, usize)]) -> Self {
        Self::new(places.iter().map(|&(part, file)| parts[part].get(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_given_back_as_they_were() {
        let int = |value| ScalarValue::Int32(value);
        let values = [
            Precision::Exact(int(Some(7))),
            Precision::Exact(int(None)),
            Precision::Inexact(int(Some(8))),
            Precision::Absent,
        ];
        let a = Values::new(values.iter(), &DataType::Int32).unwrap();
        let other = Precision::Exact(ScalarValue::Int64(Some(1)));
        let b = Values::new([&other, &values[0]].into_iter(), &DataType::Int32).unwrap();
        for (file, value) in values.iter().enumerate() {
            assert_eq!(&a.get(file).unwrap(), value);
        }
        assert_eq!(b.get(0).unwrap(), Precision::Absent, "of another type");

        let picked = Values::pick(&[&a, &b], &[(1, 1), (0, 2), (0, 1), (1, 0)]).unwrap();
        let picked: Vec<_> = (0..4).map(|file| picked.get(file).unwrap()).collect();
        let [seven, null, eight, absent] = values;
        assert_eq!(picked, [seven, eight, null, absent]);
    }

    #[test]
    fn counts_that_are_all_the_same_are_held_once() {
        let of = |counts: &[usize]| Counts::new(counts.iter().map(|&n| Precision::Exact(n)));
        assert!(matches!(of(&[3, 3]), Counts::Same(Precision::Exact(3))));
        let picked = Counts::pick(&[&of(&[3, 3]), &of(&[4, 5])], &[(1, 1), (0, 0)]);
        assert_eq!(picked.get(0), Precision::Exact(5));
        assert_eq!(picked.get(1), Precision::Exact(3));
    }
}
