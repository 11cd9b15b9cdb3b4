//! Versions of a file, as stores describe them.

use object_store::ObjectMeta;

/// Whether `now` is the version of a file that was `listed`.
///
/// The size is the same then, and so is the ETag, or if not both have one, the time of modification. Stores do not
/// describe a version in the same words in a listing and in an answer: the time may be in whole seconds in one of them
/// (HTTP dates are) or missing, and an ETag with or without quotes.
pub(super) fn is_same_version(listed: &ObjectMeta, now: &ObjectMeta) -> bool {
    if listed.size != now.size {
        return false;
    }
    if let (Some(listed), Some(now)) = (&listed.e_tag, &now.e_tag) {
        return opaque(listed) == opaque(now);
    }
    let (listed, now) = (listed.last_modified, now.last_modified);
    // Which is how object_store says that an answer has no time.
    if listed.timestamp() == 0 || now.timestamp() == 0 {
        return true;
    }
    let in_seconds = listed.timestamp_subsec_nanos() == 0 || now.timestamp_subsec_nanos() == 0;
    match in_seconds {
        true => listed.timestamp() == now.timestamp(),
        false => listed == now,
    }
}

/// What an ETag is apart from how it is written.
fn opaque(e_tag: &str) -> &str {
    let strong = e_tag.strip_prefix("W/").unwrap_or(e_tag);
    strong.trim_matches('"')
}

/// A version, for people.
pub(super) fn described(file: &ObjectMeta) -> String {
    let ObjectMeta {
        size,
        last_modified,
        ..
    } = file;
    match &file.e_tag {
        Some(e_tag) => format!("{size} bytes, {last_modified}, ETag {e_tag}"),
        None => format!("{size} bytes, {last_modified}"),
    }
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    fn version(size: u64, modified: &str, e_tag: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            location: Path::from("a.parquet"),
            last_modified: modified.parse().unwrap(),
            size,
            e_tag: e_tag.map(Into::into),
            version: None,
        }
    }

    #[test]
    fn a_version_is_told_by_size_and_e_tag_or_time() {
        let listed = version(10, "2026-01-01T00:00:00.250Z", Some("\"a\""));
        let is_same = |now| is_same_version(&listed, &now);
        assert!(is_same(version(
            10,
            "2026-01-01T00:00:00.250Z",
            Some("\"a\"")
        )));
        assert!(is_same(version(
            10,
            "2026-01-01T00:00:09Z",
            Some("W/\"a\"")
        )));
        assert!(is_same(version(10, "2026-01-01T00:00:00Z", Some("a"))));
        assert!(!is_same(version(
            11,
            "2026-01-01T00:00:00.250Z",
            Some("\"a\"")
        )));
        assert!(!is_same(version(
            10,
            "2026-01-01T00:00:00.250Z",
            Some("\"b\"")
        )));
        // Without an ETag in one of them.
        assert!(is_same(version(10, "1970-01-01T00:00:00Z", None)));
        assert!(is_same(version(10, "2026-01-01T00:00:00.250Z", None)));
        assert!(is_same(version(10, "2026-01-01T00:00:00Z", None)));
        assert!(!is_same(version(10, "2026-01-01T00:00:01Z", None)));
        assert!(!is_same(version(10, "2026-01-01T00:00:00.251Z", None)));
    }
}
