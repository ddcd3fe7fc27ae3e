//! The configuration with the folders that were added by command.

use dewar_engine::host::paths::is_same_folder;
use dewar_engine::host::pool_state_file::known_folders;

use crate::config::Config;

/// The configuration with the folders that the state folder remembers.
#[must_use]
pub(crate) fn with_added(config: &Config) -> Config {
    let mut config = config.clone();
    for (folder, pool) in known_folders(&config.server.state_dir) {
        let known = config.folders();
        if !known
            .iter()
            .any(|(known, _)| is_same_folder(known, &folder))
        {
            config.add_folder(folder, pool);
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use dewar_engine::host::pool_state_file;

    use super::*;

    #[test]
    fn folders_that_were_added_are_behind_those_of_the_configuration() {
        let dir = tempfile::tempdir().expect("a folder");
        let text = r#"{ "dewar": "1", "formatted": true, "master_key": "2", "disks": [
            { "number": 1, "id": null, "folder": "/c" },
            { "number": 2, "id": null, "folder": "/a" },
            { "number": 3, "id": null, "folder": "/gone", "removed": true },
            { "number": 4, "id": null, "folder": "/b" } ] }"#;
        std::fs::write(pool_state_file::path(dir.path()), text).expect("written");
        let mut config = Config::default();
        config.server.state_dir = dir.path().to_path_buf();
        config.pool.disks = vec!["/a".into(), "/x".into()];
        let expected: Vec<PathBuf> = ["/a", "/x", "/c", "/b"].map(PathBuf::from).into();
        assert_eq!(with_added(&config).pool.disks, expected);
    }
}
