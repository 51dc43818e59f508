//! The folders of a storage that may be written. The names choose a handle, and the operating system holds what is written to
//! the folder of that handle. It writes nothing itself.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use cap_primitives::fs::open_dir_nofollow;
use cap_std::fs::Dir;

/// Folders below that of a storage, each opened once.
#[derive(Default)]
pub(super) struct WritableFolders(Vec<(PathBuf, Dir)>);

impl WritableFolders {
    /// Adds a folder, which is made when it is missing. No link is followed on the way: whoever fills the storage would choose
    /// with one what may be written.
    pub(super) fn add(&mut self, storage: &Dir, folder: &Path) -> io::Result<()> {
        let names = names(folder)?;
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

    /// The folder that a path of the storage begins with, and the rest of the path, which may still try to leave it.
    pub(super) fn below<'p>(&self, path: &'p Path) -> Option<(&Dir, &'p Path)> {
        self.0.iter().find_map(|(name, folder)| Some((folder, path.strip_prefix(name).ok()?)))
    }

    /// Their names for a sentence.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|(name, _)| format!("`{}`", name.display())).collect();
        names.join(", ")
    }
}

/// The names that a path consists of.
fn names(folder: &Path) -> io::Result<Vec<&std::ffi::OsStr>> {
    let parts = folder.components().filter(|part| !matches!(part, Component::CurDir));
    let names: Option<Vec<_>> =
        parts.map(|part| if let Component::Normal(name) = part { Some(name) } else { None }).collect();
    names.filter(|names| !names.is_empty()).ok_or_else(|| {
        let problem = format!(
            "`{}` is not a folder below the storage; write its path from there, without `..`, such as `src`",
            folder.display()
        );
        io::Error::new(ErrorKind::InvalidInput, problem)
    })
}

fn said(folder: &Path, error: &io::Error) -> io::Error {
    let problem =
        format!("`{}` is not a folder that may be written, without a link on its way: {error}", folder.display());
    io::Error::new(error.kind(), problem)
}
