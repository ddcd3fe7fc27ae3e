//! Relations between paths.

use std::path::{Path, PathBuf};

/// Whether `path` is `folder` or in it. Symbolic links are followed as far as they exist.
#[must_use]
pub fn is_within(path: &Path, folder: &Path) -> bool {
    resolved(path).starts_with(resolved(folder))
}

/// `path` with its existing part made absolute and free of symbolic links.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for ancestor in absolute.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
            // Joining an empty path would add a slash at the end.
            return if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            };
        }
    }
    absolute
}

/// Whether two paths lead to the same folder. An absent folder is compared by name.
#[must_use]
pub fn is_same_folder(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let named = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        path.canonicalize().unwrap_or_else(|_| named())
    };
    a == b || place(a) == place(b)
}

/// The folder a file is in; `.` for a bare name.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
