//! `McpLoginFolder`: stores logins in files that only their user can read. The files are not
//! encrypted.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use ring::digest::{SHA256, digest};

use super::kept_login::McpLogins;
use agentflow_core::__private::private;
use agentflow_core::model::Secret;

/// The most bytes of a login.
const MOST_BYTES: u64 = 256 << 10;
/// Maximum time to wait for another process's lock. It is longer than a renewal, which takes at
/// most two requests.
const LONGEST_LOCK: Duration = Duration::from_secs(40);
/// Pause between two attempts to lock.
const LOOKS_AGAIN: Duration = Duration::from_millis(25);

/// A store of logins in a folder, with one file for each server. `agentwf mcp login` uses the
/// folder of [`of_user`](Self::of_user).
///
/// On Unix, the folder and its files are created so that only their user can read them. Elsewhere,
/// they have the permissions of the parent folder. Folders of other users, folders that others can
/// write to, links, and entries that are not files are refused. Logins are not encrypted. Use one
/// folder for one person.
///
/// A login is replaced atomically, so a process that ends during the write leaves the previous
/// login. Next to a renewed login is a file with the extension `.lock`, which one process at a time
/// locks. It is removed together with the login.
///
/// ```
/// use agentflow::mcp::McpLoginFolder;
///
/// let logins = McpLoginFolder::new("/var/lib/assistant/logins");
/// # drop(logins);
/// ```
#[derive(Clone)]
pub struct McpLoginFolder {
    folder: PathBuf,
}

impl McpLoginFolder {
    /// Uses this folder. It is created when the first login is saved.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Uses the folder of the current user: `agentflow/mcp-logins` in `$XDG_DATA_HOME` or in
    /// `~/.local/share`, and on Windows in `%LOCALAPPDATA%`. Returns `None` if the environment
    /// defines no such folder.
    pub fn of_user() -> Option<Self> {
        let named = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let data = match cfg!(windows) {
            true => named("LOCALAPPDATA"),
            false => named("XDG_DATA_HOME")
                .or_else(|| named("HOME").map(|home| home.join(".local/share"))),
        };
        data.map(|data| Self::new(data.join("agentflow/mcp-logins")))
    }

    /// Returns the path of a server's login. It contains a hash, because an address is not a valid
    /// file name.
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
        run_blocking(move || read(&folder, &file)).await
    }

    async fn save(&self, server: &str, login: Option<&Secret>) -> io::Result<()> {
        let (folder, file, login) = (self.folder.clone(), self.file(server), login.cloned());
        run_blocking(move || match login {
            Some(login) => write(&folder, &file, &login),
            None => remove(&folder, &file),
        })
        .await
    }

    async fn lock(&self, server: &str) -> io::Result<Box<dyn Send>> {
        let begun = tokio::time::Instant::now();
        loop {
            let (folder, file) = (self.folder.clone(), lock_path(&self.file(server)));
            match run_blocking(move || try_lock(&folder, &file)).await? {
                Some(lock) => return Ok(lock),
                None if begun.elapsed() >= LONGEST_LOCK => {
                    let problem = format!("another process has had it locked for {LONGEST_LOCK:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
                }
                None => tokio::time::sleep(LOOKS_AGAIN).await,
            }
        }
    }
}

/// Returns the path of the file that is locked while a login is renewed or removed.
fn lock_path(file: &Path) -> PathBuf {
    file.with_extension("lock")
}

/// Locks a file until the returned value is dropped. Returns `None` if another process has locked
/// it. If the folder does not exist, there is no login to renew, so nothing is locked.
fn try_lock(folder: &Path, file: &Path) -> io::Result<Option<Box<dyn Send>>> {
    match is_of_user(folder)? {
        true => Ok(locked_file(file)?.map(|locked| Box::new(locked) as Box<dyn Send>)),
        false => Ok(Some(Box::new(()))),
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
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
    // A longer file was not written by this library. Its truncated text fails to parse.
    opened.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(Some(Secret::new(text)))
}

fn write(folder: &Path, file: &Path, login: &Secret) -> io::Result<()> {
    make_folder(folder)?;
    is_of_user(folder)?;
    // Unique among all processes, because each process writes its own temporary file.
    let beside = file.with_extension(format!("{}.{:x}", std::process::id(), fastrand::u64(..)));
    let written = (|| {
        let mut new = new_file(&beside)?;
        new.write_all(login.expose().as_bytes())?;
        new.sync_all()?;
        // The rename replaces the previous login atomically.
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
    let removed = fs::remove_file(file);
    // A waiting process notices the removal and creates a new file.
    let _ = fs::remove_file(lock_path(file));
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns `true` if the folder exists. Fails if it belongs to another user, or if others can write
/// to it.
#[cfg(unix)]
fn is_of_user(folder: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        metadata => metadata?,
    };
    let refused = |why: &str| {
        Err(io::Error::other(format!("the folder `{}` of logins {why}", folder.display())))
    };
    match metadata {
        of if !of.is_dir() => refused("is not a folder"),
        of if of.uid() != rustix::process::geteuid().as_raw() => {
            refused("belongs to another user; name one of your own")
        }
        // Other users could replace the files, even if they cannot read them.
        of if of.mode() & 0o022 != 0 => {
            refused("can be written to by others; take that from them (`chmod go-w`)")
        }
        _ => Ok(true),
    }
}

#[cfg(not(unix))]
fn is_of_user(folder: &Path) -> io::Result<bool> {
    folder.try_exists()
}

/// Opens an existing file. Does not follow links, and does not block on a named pipe without a
/// writer.
#[cfg(unix)]
fn existing_file(path: &Path) -> io::Result<File> {
    let flags =
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
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

/// Opens or creates a file and locks it. Returns `None` if another process has locked it. Does not
/// follow links.
#[cfg(unix)]
fn locked_file(path: &Path) -> io::Result<Option<File>> {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
    use rustix::io::Errno;

    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::RUSR | Mode::WUSR)?);
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    // A logout may have removed the file before the lock was taken. A lock of a removed file
    // excludes no other process.
    let (locked, now) = (file.metadata()?, fs::symlink_metadata(path));
    Ok(now.is_ok_and(|now| (now.dev(), now.ino()) == (locked.dev(), locked.ino())).then_some(file))
}

/// Opens or creates a file exclusively. Returns `None` if another process has opened it.
#[cfg(windows)]
fn locked_file(path: &Path) -> io::Result<Option<File>> {
    use std::os::windows::fs::OpenOptionsExt as _;

    /// Windows error code `ERROR_SHARING_VIOLATION`.
    const SHARED: i32 = 32;
    match File::options().write(true).create(true).truncate(false).share_mode(0).open(path) {
        Err(error) if error.raw_os_error() == Some(SHARED) => Ok(None),
        opened => opened.map(Some),
    }
}

#[cfg(not(any(unix, windows)))]
fn locked_file(_: &Path) -> io::Result<Option<File>> {
    Err(io::ErrorKind::Unsupported.into())
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
    private(fs::OpenOptions::new().write(true).create_new(true)).open(path)
}
