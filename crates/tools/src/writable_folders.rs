//! The writable folders of a storage. The path selects a folder handle, and the operating system
//! keeps writes inside that folder. Writes nothing itself.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use cap_primitives::fs::open_dir_nofollow;
use cap_std::fs::Dir;

/// Folders below a storage's folder. Each is opened once.
#[derive(Default)]
pub(super) struct WritableFolders(Vec<(PathBuf, Dir)>);

impl WritableFolders {
    /// Adds a folder and creates it if it is missing. Links are not followed: otherwise a party
    /// that can write to the storage could choose which folder becomes writable.
    pub(super) fn add(&mut self, storage: &Dir, folder: &Path) -> io::Result<()> {
        let names = names(folder)?;
        // Each level is opened relative to its parent's handle, so that no part of the path can be
        // replaced by a link.
        let opened = names.iter().try_fold(storage.try_clone()?, |above, name| {
            let made = above.create_dir(name);
            if let Err(error) = made.as_ref()
                && error.kind() != ErrorKind::AlreadyExists
            {
                return Err(said(folder, error));
            }
            let opened = open_dir_nofollow(&above.into_std_file(), Path::new(name));
            opened.map(Dir::from_std_file).map_err(|error| said(folder, &error))
        })?;
        self.0.push((names.iter().collect(), opened));
        Ok(())
    }

    /// Returns the folder in which a path starts, and the rest of the path. The rest may still
    /// contain `..`.
    pub(super) fn below<'p>(&self, path: &'p Path) -> Option<(&Dir, &'p Path)> {
        self.0.iter().find_map(|(name, folder)| Some((folder, path.strip_prefix(name).ok()?)))
    }

    /// Returns the names of the folders for a message.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> =
            self.0.iter().map(|(name, _)| format!("`{}`", name.display())).collect();
        names.join(", ")
    }
}

/// Splits a path into its names.
fn names(folder: &Path) -> io::Result<Vec<&std::ffi::OsStr>> {
    let parts = folder.components().filter(|part| !matches!(part, Component::CurDir));
    let names: Option<Vec<_>> = parts
        .map(|part| if let Component::Normal(name) = part { Some(name) } else { None })
        .collect();
    names.filter(|names| !names.is_empty()).ok_or_else(|| {
        let problem = format!(
            "`{}` is not a folder below the storage; write its path from there, without `..`, such as `src`",
            folder.display()
        );
        io::Error::new(ErrorKind::InvalidInput, problem)
    })
}

fn said(folder: &Path, error: &io::Error) -> io::Error {
    let problem = format!(
        "`{}` is not a folder that may be written, without a link on its way: {error}",
        folder.display()
    );
    io::Error::new(error.kind(), problem)
}
