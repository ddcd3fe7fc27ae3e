//! Paths that a disk accepts: relative, inside its folder, the same on every disk.

use super::DiskErrorKind;

const PATH_BYTES_MAX: usize = 2048;
const NAME_BYTES_MAX: usize = 255;

/// Whether `path` names something inside the folder.
pub(super) fn check_file(path: &str) -> Result<(), DiskErrorKind> {
    let good = |name: &str| {
        !name.is_empty()
            && name != "."
            && name != ".."
            && name.len() <= NAME_BYTES_MAX
            && !name.contains('\0')
    };
    if path.len() <= PATH_BYTES_MAX && path.split('/').all(good) {
        return Ok(());
    }
    Err(DiskErrorKind::Invalid)
}

/// The same for folders: the empty path is the disk's own.
pub(super) fn check_dir(path: &str) -> Result<(), DiskErrorKind> {
    if path.is_empty() {
        return Ok(());
    }
    check_file(path)
}

/// The folder that a name is in; empty for the disk's own.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Where [`super::Disk::replace_file`] writes before it renames.
pub(super) fn temporary(path: &str) -> String {
    format!("{path}.tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_inside() {
        for good in ["a", "a/b", "..a/b..", "a b", "journal/epoch"] {
            assert_eq!(check_file(good), Ok(()), "{good}");
        }
        let long = "x".repeat(256);
        for bad in [
            "", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\0b", &long,
        ] {
            assert_eq!(check_file(bad), Err(DiskErrorKind::Invalid), "{bad:?}");
        }
        assert_eq!(check_dir(""), Ok(()));
        assert_eq!(check_dir("a/.."), Err(DiskErrorKind::Invalid));
    }
}
