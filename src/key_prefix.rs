//! The first bytes of keys, as numbers.

/// The first 16 bytes of a key as a number, filled up with zeros: it is never greater than that of a greater key.
#[inline]
pub(crate) fn key_prefix(bytes: &[u8]) -> u128 {
    match (bytes.first_chunk::<16>(), bytes.split_first_chunk::<8>()) {
        (Some(first), _) => u128::from_be_bytes(*first),
        (None, Some((first, rest))) => {
            // Of less than eight bytes.
            let rest = rest
                .iter()
                .fold(0, |rest, &byte| rest << 8 | u64::from(byte))
                << (8 * (8 - rest.len()) as u32 % 64);
            u128::from(u64::from_be_bytes(*first)) << 64 | u128::from(rest)
        }
        (None, None) => {
            let mut first = [0; 16];
            first[..bytes.len()].copy_from_slice(bytes);
            u128::from_be_bytes(first)
        }
    }
}
