//! Connects a store, and disconnects it when its last handle is dropped.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use agentflow_core::store::{StoreError, StoreErrorKind};

use super::background::Background;
use super::builder::{PostgresStoreBuilder, Settings, server_name};
use super::database::{Database, session_setup};
use super::io_thread::{IoThread, ignore};
use super::lease::{self, ProcessOwner};
use super::notices::{self, Notices};
use super::postgres_error::PostgresErrors;
use super::quick_append::KnownRuns;
use super::tls::Connector;
use super::{PostgresStore, migrations};

/// The state that the clones of a store share.
pub(super) struct Shared {
    pub(super) thread: IoThread,
    pub(super) database: Arc<Database>,
    pub(super) owner: Arc<str>,
    pub(super) notices: Arc<Notices>,
    pub(super) known: Arc<KnownRuns>,
    /// Hashes of graph definitions that are known to be in the database.
    pub(super) definitions: Mutex<HashSet<String>>,
    pub(super) identity: String,
    pub(super) channel: Arc<str>,
    pub(super) server: String,
    pub(super) limits: Limits,
    process: Arc<ProcessOwner>,
}

/// Maximum sizes in bytes.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) event: u64,
    pub(super) snapshot: u64,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let is_last = self.process.release();
        let (database, owner) = (Arc::clone(&self.database), Arc::clone(&self.owner));
        let channel = Arc::clone(&self.channel);
        self.thread.shut_down(Box::pin(async move {
            if is_last {
                lease::end(&database, &owner, &channel).await;
            }
        }));
    }
}

impl PostgresStoreBuilder {
    /// Connects to the database, and creates or upgrades the tables.
    ///
    /// # Errors
    /// - `unreachable`: the server cannot be reached.
    /// - `newer_version`: a newer release upgraded the tables.
    /// - `io`: the URL, the schema name or a certificate is invalid; the server refuses the user, is
    ///   too old or has another encoding; the user has no right to create the tables; or the schema
    ///   contains tables of another program.
    ///
    /// The database is not changed then.
    pub async fn connect(self) -> Result<PostgresStore, StoreError> {
        let settings = self.0;
        let config = settings.config()?;
        let server = server_name(&config);
        let errors = PostgresErrors::new(server.as_str());
        let connector = Connector::new(&config, settings.roots.as_deref())?;
        let thread = IoThread::start().map_err(|error| {
            StoreError::new(StoreErrorKind::Io, "no thread can be started for the store")
                .caused_by(error)
        })?;
        let database =
            Arc::new(Database::new(&settings, &config, connector.clone(), errors.clone())?);
        let migrated = {
            let (database, schema) = (Arc::clone(&database), settings.schema.clone());
            async move { migrations::migrate(&database, &schema).await }
        };
        let store = thread.submit(migrated, ignore).await?;
        let identity = format!("postgres:{store}:{}", settings.schema);
        let process = Arc::new(ProcessOwner::acquire(&identity));
        let owner: Arc<str> = process.id().into();
        let channel: Arc<str> = notices::channel(&settings.schema).into();
        let limits =
            Limits { event: settings.max_event_bytes, snapshot: settings.max_snapshot_bytes() };
        let shared = Shared {
            thread,
            database,
            owner,
            notices: Arc::new(Notices::new()),
            known: Arc::default(),
            definitions: Mutex::default(),
            identity,
            channel,
            server,
            limits,
            process,
        };
        // From here, the drop of `shared` ends the lease.
        shared.start(settings, config, connector, errors).await?;
        Ok(PostgresStore(Arc::new(shared)))
    }
}

impl Shared {
    /// Creates the lease and starts the background task.
    async fn start(
        &self,
        settings: Settings,
        mut config: tokio_postgres::Config,
        connector: Connector,
        errors: PostgresErrors,
    ) -> Result<(), StoreError> {
        let (database, owner) = (Arc::clone(&self.database), Arc::clone(&self.owner));
        let lease = settings.lease;
        let created = async move { lease::create(&database, &owner, lease).await };
        self.thread.submit(created, ignore).await?;
        // Distinguishes the connection in the views of the server.
        let name = config.get_application_name().unwrap_or("agentflow").to_owned();
        config.application_name(format!("{name} listener"));
        let background = Background {
            setup: session_setup(&settings),
            config,
            connector,
            channel: self.channel.to_string(),
            owner: Arc::clone(&self.owner),
            lease,
            errors,
            notices: Arc::clone(&self.notices),
        };
        self.thread.spawn(background.run());
        Ok(())
    }
}
