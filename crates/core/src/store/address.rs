//! [`StoreAddress`], and the registration of stores that are opened by an address. The crate of such
//! a store registers a function, so that the configuration and the command line can open it without
//! depending on a database.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::{MemoryStore, Store, StoreError, StoreErrorKind};
use crate::future::BoxFuture;

/// Schemes of the stores of this library, and the features that contain them.
const FEATURES: [(&str, &str); 3] =
    [("sqlite", "sqlite"), ("postgres", "postgres"), ("postgresql", "postgres")];

/// Scheme of the store whose address may be a path alone.
const FILES: &str = "sqlite";

/// Replaces passwords in messages.
const HIDDEN: &str = "***";

/// Address of a store, from a setting or from the command line.
///
/// | address | store | feature |
/// | --- | --- | --- |
/// | `runs.db`, `sqlite:runs.db` | a `SqliteStore` in this file, which is created if it does not exist | `sqlite` |
/// | `postgres://user:password@host:5432/database`, `postgresql://..` | a `PostgresStore` with its default options | `postgres` |
/// | `memory:` | a [`MemoryStore`], which ends with the process | |
///
/// Text of letters, digits, `+` and `-` before a colon is a scheme. Write `./a:b` for a file whose
/// name has this form. Every text is an address; [`open`](Self::open) reports an unknown scheme.
///
/// `Display` and `Debug` replace passwords by `***`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use agentflow::store::{RunFilter, StoreAddress};
///
/// let store = StoreAddress::from("memory:").open().await?;
/// assert!(store.list(RunFilter::new()).await?.is_empty());
///
/// let address = StoreAddress::from("postgres://app:secret@db.internal/app");
/// assert_eq!(address.to_string(), "postgres://app:***@db.internal/app");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoreAddress(Place);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    Memory,
    File(PathBuf),
    /// The whole address, and its scheme in lower case.
    Url {
        scheme: String,
        url: String,
    },
}

/// Opens a store and creates it if it does not exist.
pub(crate) type OpenStore<A> = fn(A) -> BoxFuture<'static, Result<Arc<dyn Store>, StoreError>>;

/// Function that opens the stores of a crate.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum StoreOpener {
    /// Opens a file, from an address that is a path or has the scheme `sqlite`.
    File(OpenStore<PathBuf>),
    /// Opens a URL with one of these schemes, in lower case.
    Url(&'static [&'static str], OpenStore<String>),
}

inventory::collect!(StoreOpener);

impl fmt::Debug for StoreOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOpener").finish_non_exhaustive()
    }
}

impl StoreAddress {
    /// Opens the store and creates it if it does not exist. Each call with `memory:` returns a new
    /// store.
    ///
    /// # Errors
    /// `unsupported` if the scheme is unknown, or if the feature with the store is not compiled in;
    /// otherwise the errors of the store, such as of `PostgresStore::connect`.
    pub async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        match &self.0 {
            Place::Memory => Ok(Arc::new(MemoryStore::new())),
            Place::File(path) => {
                let mut openers = inventory::iter::<StoreOpener>.into_iter();
                let opener = openers.find_map(|opener| match opener {
                    StoreOpener::File(open) => Some(*open),
                    StoreOpener::Url(..) => None,
                });
                match opener {
                    Some(open) => open(path.clone()).await,
                    None => Err(self.missing(FILES)),
                }
            }
            Place::Url { scheme, url } => {
                let mut openers = inventory::iter::<StoreOpener>.into_iter();
                let opener = openers.find_map(|opener| match opener {
                    StoreOpener::Url(schemes, open) if schemes.contains(&&**scheme) => Some(*open),
                    _ => None,
                });
                match opener {
                    Some(open) => open(url.clone()).await,
                    None => Err(self.missing(scheme)),
                }
            }
        }
    }

    /// Returns the file of the store; `None` if the store is not a file.
    pub fn file(&self) -> Option<&Path> {
        match &self.0 {
            Place::File(path) => Some(path),
            Place::Memory | Place::Url { .. } => None,
        }
    }

    /// Returns `true` for `memory:`, a store that ends with the process.
    pub fn is_memory(&self) -> bool {
        matches!(self.0, Place::Memory)
    }

    /// Resolves the relative path of a file against a folder. Other addresses are returned
    /// unchanged.
    #[must_use]
    pub fn in_folder(self, folder: impl AsRef<Path>) -> Self {
        match self.0 {
            Place::File(path) => Self(Place::File(folder.as_ref().join(path))),
            other => Self(other),
        }
    }

    /// Returns the error for a store that no crate of this program can open.
    fn missing(&self, scheme: &str) -> StoreError {
        let text = match FEATURES.iter().find(|(known, _)| *known == scheme) {
            Some((_, feature)) => format!(
                "the store `{self}` needs the feature `{feature}`, without which this program is \
                 built"
            ),
            // The rest of the address may contain a password in an unknown form.
            None => format!(
                "unknown scheme `{scheme}:` in the address of a store; use a path, `sqlite:FILE`, \
                 `postgres://user@host/database` or `memory:`"
            ),
        };
        StoreError::new(StoreErrorKind::Unsupported, text)
    }
}

impl From<&str> for StoreAddress {
    fn from(text: &str) -> Self {
        if text == "memory:" {
            return Self(Place::Memory);
        }
        match scheme(text) {
            Some((FILES, path)) => {
                Self(Place::File(path.strip_prefix("//").unwrap_or(path).into()))
            }
            Some((scheme, _)) => {
                let (scheme, url) = (scheme.to_ascii_lowercase(), text.to_owned());
                Self(Place::Url { scheme, url })
            }
            None => Self(Place::File(text.into())),
        }
    }
}

impl From<String> for StoreAddress {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<OsString> for StoreAddress {
    fn from(text: OsString) -> Self {
        match text.into_string() {
            Ok(text) => Self::from(text),
            Err(path) => Self(Place::File(path.into())),
        }
    }
}

impl From<PathBuf> for StoreAddress {
    /// Returns the address of a file, also if the path has the form of another address.
    fn from(path: PathBuf) -> Self {
        Self(Place::File(path))
    }
}

impl<'de> Deserialize<'de> for StoreAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Memory => f.write_str("memory:"),
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Url { url, .. } => f.write_str(&without_passwords(url)),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreAddress").field(&format_args!("{self}")).finish()
    }
}

/// Splits an address into its scheme and the rest. A single letter is a drive of Windows.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'-';
    let begins = scheme.bytes().next()?.is_ascii_alphabetic();
    (begins && scheme.len() > 1 && scheme.bytes().all(is_part)).then_some((scheme, rest))
}

/// Returns a URL without the password of its user and the values of parameters such as `password`.
fn without_passwords(url: &str) -> String {
    let Some((start, rest)) = url.split_once("://") else {
        let (scheme, _) = url.split_once(':').unwrap_or((url, ""));
        return format!("{scheme}:{HIDDEN}");
    };
    // A password that is not encoded may contain any of the characters that end a host.
    let (user, host) = match rest.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, rest),
    };
    let mut shown = format!("{start}://");
    match user.map(|user| user.split_once(':').ok_or(user)) {
        Some(Ok((user, _))) => shown += &format!("{user}:{HIDDEN}@"),
        Some(Err(user)) => shown += &format!("{user}@"),
        None => {}
    }
    let (host, query) = host.split_once('?').unwrap_or((host, ""));
    shown += host;
    for (at, part) in query.split('&').filter(|part| !part.is_empty()).enumerate() {
        shown.push(if at == 0 { '?' } else { '&' });
        match part.split_once('=') {
            Some((name, _)) if name.to_ascii_lowercase().contains("password") => {
                shown += &format!("{name}={HIDDEN}");
            }
            _ => shown += part,
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::StoreAddress;
    use crate::store::StoreErrorKind;

    fn file(text: &str) -> Option<String> {
        StoreAddress::from(text).file().map(|path| path.display().to_string())
    }

    #[test]
    fn paths_and_schemes_are_distinguished() {
        for (text, path) in [
            ("runs.db", "runs.db"),
            ("sqlite:runs.db", "runs.db"),
            ("sqlite://runs.db", "runs.db"),
            ("sqlite:///var/runs.db", "/var/runs.db"),
            ("./a:b", "./a:b"),
            ("c:\\runs.db", "c:\\runs.db"),
            ("runs.db:old", "runs.db:old"),
            (":memory:", ":memory:"),
        ] {
            assert_eq!(file(text).as_deref(), Some(path), "{text}");
        }
        for text in ["memory:", "postgres://h/d", "POSTGRES://h/d", "mysql://h", "memory:x"] {
            assert_eq!(file(text), None, "{text}");
        }
        let in_folder = |text: &str| StoreAddress::from(text).in_folder("/etc").to_string();
        assert_eq!(in_folder("sqlite:runs.db"), Path::new("/etc/runs.db").display().to_string());
        assert_eq!(in_folder("postgres://h/d"), "postgres://h/d");
        assert!(StoreAddress::from("memory:").is_memory());
    }

    #[test]
    fn passwords_are_hidden() {
        for (text, shown) in [
            (
                "postgres://ada:pw@h:5432/d?sslmode=require",
                "postgres://ada:***@h:5432/d?sslmode=require",
            ),
            ("postgres://ada:p/w?x@y@h/d", "postgres://ada:***@h/d"),
            ("postgres://ada@h/d", "postgres://ada@h/d"),
            ("postgresql://h/d?user=a&password=pw&x=1", "postgresql://h/d?user=a&password=***&x=1"),
        ] {
            let address = StoreAddress::from(text);
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), format!("StoreAddress({shown})"));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_opened_is_explained() {
        assert!(StoreAddress::from("memory:").open().await.is_ok());
        for (text, expected) in [
            ("runs.db", "the store `runs.db` needs the feature `sqlite`"),
            (
                "postgres://a:pw@h/d",
                "the store `postgres://a:***@h/d` needs the feature `postgres`",
            ),
            ("postgresql://h/d", "needs the feature `postgres`"),
            ("mysql:a:pw@h", "unknown scheme `mysql:` in the address of a store; use a path"),
            ("memory:pw", "unknown scheme `memory:`"),
        ] {
            let error = StoreAddress::from(text).open().await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!error.to_string().contains("pw"), "{error}");
        }
    }
}
