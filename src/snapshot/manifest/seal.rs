//! A hash inside of a file, of all its other bytes.
//!
//! Parquet has checksums of pages, but none of the footer: a footer in which a byte has changed may well be that of another
//! file.

use std::hash::Hasher;
use std::ops::Range;

use twox_hash::XxHash64;

/// What stands before the digits of the hash, the last time in the file.
const MARK: &str = "xxh64:";

/// What stands in their place before they are known.
const NO_DIGITS: &str = "................";

/// The text that a file has to hold, in which [`seal`] puts the hash.
pub(super) fn unsealed() -> String {
    [MARK, NO_DIGITS].concat()
}

/// Puts the hash of `bytes` into them; `None` if they do not hold what is [`unsealed`].
pub(super) fn seal(bytes: &mut [u8]) -> Option<()> {
    let place = digits(bytes)?;
    let hash = hash(bytes, &place);
    bytes[place].copy_from_slice(hash.as_bytes());
    Some(())
}

/// Whether `bytes` are as they were when they were sealed.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    digits(bytes).is_some_and(|place| hash(bytes, &place).as_bytes() == &bytes[place])
}

/// Where the digits of the hash are.
fn digits(bytes: &[u8]) -> Option<Range<usize>> {
    let mut places = bytes.windows(MARK.len());
    let start = places.rposition(|place| place == MARK.as_bytes())? + MARK.len();
    let place = start..start + NO_DIGITS.len();
    bytes.get(place.clone()).map(|_| place)
}

/// The hash of all bytes but those in `place`, as 16 digits.
fn hash(bytes: &[u8], place: &Range<usize>) -> String {
    let mut hasher = XxHash64::default();
    for part in [
        &bytes[..place.start],
        NO_DIGITS.as_bytes(),
        &bytes[place.end..],
    ] {
        hasher.write(part);
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts() {
        let mut bytes = format!("xxh64: is {} of this", unsealed()).into_bytes();
        assert!(!is_sealed(&bytes));
        seal(&mut bytes).unwrap();
        assert!(is_sealed(&bytes));
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            assert!(!is_sealed(&bytes), "{place}");
            bytes[place] ^= 1;
            assert!(!is_sealed(&bytes[..place]), "{place}");
        }
        for bytes in ["xxh64:0", "xxh6", ""] {
            assert_eq!(seal(&mut bytes.as_bytes().to_vec()), None);
            assert!(!is_sealed(bytes.as_bytes()));
        }
    }
}
