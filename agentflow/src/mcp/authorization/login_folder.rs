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
/// They are not encrypted. A login is replaced in one step, so a process that ends in between leaves the one before.
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
        let file = self.file(server);
        on_files(move || read(&file)).await
    }

    async fn save(&self, server: &str, login: Option<&Secret>) -> io::Result<()> {
        let (folder, file, login) = (self.folder.clone(), self.file(server), login.cloned());
        on_files(move || match login {
            Some(login) => write(&folder, &file, &login),
            None => match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        })
        .await
    }
}

async fn on_files<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

fn read(file: &Path) -> io::Result<Option<Secret>> {
    let opened = match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = String::new();
    opened.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(Some(Secret::new(text)))
}

fn write(folder: &Path, file: &Path, login: &Secret) -> io::Result<()> {
    make_folder(folder)?;
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
