//! [`PostgresStoreBuilder`]: the options of a store, their defaults and their checks.

use std::fmt;
use std::time::Duration;

use agentflow_core::store::{StoreError, StoreErrorKind};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

/// Limit of Postgres for one value is 1 GB. The rest is room for the other columns and arrays.
const VALUE: u64 = 900_000_000;

/// Time limit for opening a connection, unless the URL sets `connect_timeout`.
const CONNECT: Duration = Duration::from_secs(5);

/// Time after which a connection without acknowledgements is closed, unless the URL sets
/// `tcp_user_timeout`.
const SILENCE: Duration = Duration::from_secs(30);

/// Default of the driver for `keepalives_idle`. It is too long to notice a lost server.
const DRIVER_KEEPALIVE: Duration = Duration::from_secs(2 * 60 * 60);

/// Options for connecting to a database. Created by [`PostgresStore::builder`].
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentflow::store::StoreError> {
/// use std::time::Duration;
///
/// use agentflow::store::PostgresStore;
///
/// let builder = PostgresStore::builder("postgres://app:secret@db.internal/app?sslmode=require");
/// let store = builder.schema("orders").lease(Duration::from_secs(15)).connect().await?;
/// # Ok(())
/// # }
/// ```
///
/// [`PostgresStore::builder`]: super::PostgresStore::builder
#[derive(Clone)]
#[must_use]
pub struct PostgresStoreBuilder(pub(super) Settings);

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) url: String,
    pub(super) schema: String,
    pub(super) pool_size: usize,
    pub(super) statement_timeout: Duration,
    pub(super) retry_writes: Duration,
    pub(super) lease: Duration,
    pub(super) max_event_bytes: u64,
    pub(super) roots: Option<Vec<u8>>,
}

impl PostgresStoreBuilder {
    pub(super) fn new(url: String) -> Self {
        Self(Settings {
            url,
            schema: "agentflow".to_owned(),
            pool_size: 8,
            statement_timeout: Duration::from_secs(30),
            retry_writes: Duration::from_secs(10),
            lease: Duration::from_secs(30),
            max_event_bytes: 256 << 20,
            roots: None,
        })
    }

    /// Sets the schema that contains the tables. The default is `agentflow`. Stores in different
    /// schemas are independent.
    ///
    /// The name starts with a lower-case letter or `_`, contains lower-case letters, digits and
    /// `_`, has at most 63 characters and does not start with `pg_`.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.0.schema = name.into();
        self
    }

    /// Sets the maximum number of pooled connections. The default is 8, the minimum is 1. The store
    /// uses an additional connection for its lease and for notifications.
    pub fn pool_size(mut self, connections: usize) -> Self {
        self.0.pool_size = connections.max(1);
        self
    }

    /// Sets the time limit for one statement, including the time that it waits for a lock. The
    /// default is 30 seconds. A statement that exceeds the limit fails with `locked` and writes
    /// nothing.
    ///
    /// An operation also waits this long for a free connection of the pool.
    pub fn statement_timeout(mut self, limit: Duration) -> Self {
        self.0.statement_timeout = limit.max(Duration::from_millis(1));
        self
    }

    /// Sets the time during which a write is retried after the connection was lost. The default is
    /// 10 seconds, enough for most restarts of a server. With zero, a write is attempted once.
    ///
    /// Then the write fails with `unreachable`, and the run stops. It can be resumed.
    pub fn retry_writes(mut self, time: Duration) -> Self {
        self.0.retry_writes = time;
        self
    }

    /// Sets the time after which other processes may resume the runs of a process that ended
    /// without closing its store. The default is 30 seconds, the minimum 1 second. The lease is
    /// renewed three times as often.
    pub fn lease(mut self, time: Duration) -> Self {
        self.0.lease = time.max(Duration::from_secs(1));
        self
    }

    /// Sets the maximum size of one event in bytes of its JSON form, such as the output of a step.
    /// A larger event fails with `too_large`, and its commit writes nothing.
    ///
    /// The default is 256 MiB, the maximum 900 MB. The limit also applies to messages, artifacts
    /// and values of the state. A snapshot may be eight times as large.
    pub fn max_event_bytes(mut self, bytes: u64) -> Self {
        self.0.max_event_bytes = bytes.min(VALUE);
        self
    }

    /// Sets the certificate authorities that may sign the certificate of the server, as PEM text.
    /// They replace the authorities of the platform. Use this for a server with a private
    /// authority.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.0.roots = Some(pem.into());
        self
    }
}

impl Settings {
    /// Returns the maximum size of a snapshot, which contains many events.
    pub(super) fn max_snapshot_bytes(&self) -> u64 {
        self.max_event_bytes.saturating_mul(8).min(VALUE)
    }

    /// Parses the URL and sets the defaults of the connection. The errors do not contain the URL,
    /// because it may contain a password.
    pub(super) fn config(&self) -> Result<Config, StoreError> {
        let invalid = |what: String| StoreError::new(StoreErrorKind::Io, what);
        check_schema(&self.schema).map_err(invalid)?;
        // Certificates and names are always verified, so these modes of libpq need no setting.
        let url = self.url.replace("sslmode=verify-full", "sslmode=require");
        let url = url.replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.unwrap_or_else(|| error.to_string());
            invalid(format!(
                "invalid Postgres URL: {cause}; use `postgres://user:password@host:5432/database`; \
                 a private certificate authority is set with `root_certificates`"
            ))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(invalid("the Postgres URL has no host".to_owned()));
        }
        if config.get_application_name().is_none() {
            config.application_name("agentflow");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_keepalives_idle() == DRIVER_KEEPALIVE {
            config.keepalives_idle(Duration::from_secs(30));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        // One of several hosts may be a standby.
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(config)
    }
}

/// Describes the server of a configuration for error messages, such as `db.internal:5432/app`.
pub(super) fn server_name(config: &Config) -> String {
    let ports = config.get_ports();
    let host = |(at, host): (usize, &Host)| {
        let name = match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        };
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        format!("{name}:{port}")
    };
    let hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("the Postgres server `{}/{database}`", hosts.join(","))
}

fn check_schema(name: &str) -> Result<(), String> {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    match begins && name.len() <= 63 && !name.starts_with("pg_") && name.bytes().all(is_word) {
        true => Ok(()),
        false => Err(format!(
            "invalid schema name {name:?}; use lower-case letters, digits and `_`, at most 63 \
             characters, without `pg_` at the start"
        )),
    }
}

impl fmt::Debug for PostgresStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        f.debug_struct("PostgresStoreBuilder")
            .field("schema", &self.0.schema)
            .field("pool_size", &self.0.pool_size)
            .field("statement_timeout", &self.0.statement_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{PostgresStoreBuilder, check_schema, server_name};

    #[test]
    fn schema_names_are_plain_identifiers() {
        let long = "a".repeat(63);
        for name in ["agentflow", "_a1", long.as_str()] {
            assert_eq!(check_schema(name), Ok(()));
        }
        for name in ["", "1a", "A", "a-b", "a\"b", "ä", "pg_x", &"a".repeat(64)] {
            assert!(check_schema(name).is_err(), "{name}");
        }
    }

    #[test]
    fn errors_and_debug_output_hide_the_password() {
        let url = "postgres://ada:hunter2@db.test,second.test/app?sslmode=verify-full";
        let builder = PostgresStoreBuilder::new(url.to_owned());
        let config = builder.0.config().unwrap();
        assert_eq!(server_name(&config), "the Postgres server `db.test:5432,second.test:5432/app`");
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(5)));
        let bad =
            PostgresStoreBuilder::new("postgres://ada:hunter2@h/app?sslrootcert=x".to_owned());
        let error = bad.0.config().unwrap_err().to_string();
        assert!(error.contains("root_certificates"), "{error}");
        for text in [format!("{builder:?}"), server_name(&config), error] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
