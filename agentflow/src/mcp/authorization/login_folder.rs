//! `McpLoginFolder`: logins in files that their user alone can read. It encrypts nothing.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use ring::digest::{SHA256, digest};

use super::kept_login::McpLogins;
use crate::model::Secret;

/// The most bytes of a login.
const MOST_BYTES: u64 = 256 << 10;

/// Logins in the files of a folder, one for each server; `agentwf mcp login` keeps them in [`of_user`](Self::of_user).
///
/// On Unix the folder and the files that are made here can be read by their user alone; elsewhere as the folder above says.
/// A folder of somebody else, or one that others can write to, is refused, and so is what is a link or not a file. Logins are
/// not encrypted; one folder is for one person. A login is replaced in one step, so a process that ends in between leaves the one before.
#[derive(Clone)]
pub struct McpLoginFolder {
    folder: PathBuf,
}

impl McpLoginFolder {
    /// Logins in this folder, which is made when the first one is saved.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder of the user: `agentflow/mcp-logins` in `$XDG_DATA_HOME`, in `~/.local/share`, or on Windows in
    /// `%LOCALAPPDATA%`. `None` where the environment names none.
    pub fn of_user() -> Option<Self> {
        let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = match cfg!(windows) {
            true => named("LOCALAPPDATA"),
            false => named("XDG_DATA_HOME").or_else(|| named("HOME").map(|home| home.join(".local/share"))),
        };
        data.map(|data| Self::new(data.join("agentflow/mcp-logins")))
    }

    fn file(&self, server: &str) -> PathBuf {
        let name = digest(&SHA256, server.as_bytes());
        let name: String = name.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.json"))
    }
}

impl fmt::Debug for McpLoginFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpLoginFolder").field(&self.folder).finish()
    }
}

#[async_trait]
impl McpLogins for McpLoginFolder {
    async fn load(&self, server: &str) -> io::Result<Option<Secret>> {
        let (folder, file) = (self.folder.clone(), self.file(server));
        on_files(move || read(&folder, &file)).await
    }

    async fn save(&self, server: &str, login: Option<&Secret>) -> io::Result<()> {
        let (folder, file, login) = (self.folder.clone(), self.file(server), login.cloned());
        on_files(move || match login {
            Some(login) => write(&folder, &file, &login),
            None => remove(&folder, &file),
        })
        .await
    }
}

async fn on_files<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

fn read(folder: &Path, file: &Path) -> io::Result<Option<Secret>> {
    if !is_of_user(folder)? {
        return Ok(None);
    }
    let opened = match existing_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other(format!("`{}` is not a file", file.display())));
    }
    let mut text = String::new();
    opened.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(Some(Secret::new(text)))
}

fn write(folder: &Path, file: &Path, login: &Secret) -> io::Result<()> {
    make_folder(folder)?;
    is_of_user(folder)?;
    // A name that no other process has at the same time.
    let beside = file.with_extension(format!("{}.{:x}", std::process::id(), fastrand::u64(..)));
    let written = (|| {
        let mut new = new_file(&beside)?;
        new.write_all(login.expose().as_bytes())?;
        new.sync_all()?;
        fs::rename(&beside, file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn remove(folder: &Path, file: &Path) -> io::Result<()> {
    if !is_of_user(folder)? {
        return Ok(());
    }
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether there is the folder, which nobody else can have written to.
#[cfg(unix)]
fn is_of_user(folder: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        metadata => metadata?,
    };
    let refused = |why: &str| Err(io::Error::other(format!("the folder `{}` of logins {why}", folder.display())));
    match metadata {
        of if !of.is_dir() => refused("is not a folder"),
        of if of.uid() != rustix::process::geteuid().as_raw() => {
            refused("belongs to another user; name one of your own")
        }
        of if of.mode() & 0o022 != 0 => refused("can be written to by others; take that from them (`chmod go-w`)"),
        _ => Ok(true),
    }
}

#[cfg(not(unix))]
fn is_of_user(folder: &Path) -> io::Result<bool> {
    folder.try_exists()
}

/// Opens a file that is there. A link is not followed, and nobody waits for one who writes.
#[cfg(unix)]
fn existing_file(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = flags | rustix::fs::OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?))
}

#[cfg(not(unix))]
fn existing_file(path: &Path) -> io::Result<File> {
    match fs::symlink_metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other(format!("`{}` is not a file", path.display()))),
    }
}

#[cfg(unix)]
fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}
