//! The background task of a store, with a separate connection: it renews the lease of the process
//! and listens for messages. A pool that is busy with long statements does not delay it.

use std::sync::Arc;
use std::time::Duration;

use agentflow_core::__private::sha256;
use agentflow_core::store::StoreError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::{Client, Config, Error};

use super::database::CONNECT;
use super::lease::{self, RENEW};
use super::postgres_error::PostgresErrors;
use super::tls::Connector;

/// Pause after a connection was lost.
const PAUSE: Duration = Duration::from_millis(500);

/// Returns the channel for notifications of a schema. The name of a channel is limited to 63 bytes.
pub(super) fn channel(schema: &str) -> String {
    format!("agentflow_{}", &sha256(schema.as_bytes())[..24])
}

/// The background task.
pub(super) struct Background {
    pub(super) config: Config,
    pub(super) connector: Connector,
    pub(super) setup: String,
    pub(super) channel: String,
    pub(super) owner: Arc<str>,
    pub(super) lease: Duration,
    pub(super) errors: PostgresErrors,
    /// Incremented for each message to this process.
    pub(super) messages: watch::Sender<u64>,
}

impl Background {
    /// Runs until the task is dropped. Connects again after a connection was lost.
    pub(super) async fn run(self) {
        let mut is_reported = false;
        loop {
            let error = match self.connect().await {
                Ok((client, notices)) => {
                    if is_reported {
                        tracing::info!("the store is connected to Postgres again");
                    }
                    is_reported = false;
                    // Messages may have been sent while there was no connection.
                    self.wake();
                    self.serve(&client, notices).await
                }
                Err(error) => Some(error),
            };
            if let Some(error) = error.filter(|_| !is_reported) {
                tracing::warn!(%error, "the lease of this process cannot be renewed; trying again");
                is_reported = true;
            }
            sleep(PAUSE).await;
        }
    }

    async fn connect(&self) -> Result<(Client, mpsc::UnboundedReceiver<String>), StoreError> {
        let (sender, notices) = mpsc::unbounded_channel();
        let connecting = async {
            let (client, _) = self.connector.open(&self.config, Some(sender)).await?;
            client.batch_execute(&format!("{}; LISTEN {}", self.setup, self.channel)).await?;
            Ok(client)
        };
        match timeout(CONNECT, connecting).await {
            Ok(Ok(client)) => Ok((client, notices)),
            Ok(Err(error)) => Err(self.errors.sql(error)),
            Err(_) => Err(self.errors.no_answer()),
        }
    }

    /// Renews the lease and receives notifications until the connection is lost.
    async fn serve(
        &self,
        client: &Client,
        mut notices: mpsc::UnboundedReceiver<String>,
    ) -> Option<StoreError> {
        let interval = self.lease / 3;
        let mut next = Instant::now();
        loop {
            tokio::select! {
                notice = notices.recv() => match notice {
                    Some(owner) if *owner == *self.owner => self.wake(),
                    Some(_) => {}
                    // The task that reads from the connection has ended.
                    None => return None,
                },
                () = sleep_until(next) => {
                    match timeout(interval, self.renew(client)).await {
                        Ok(Ok(())) => next = Instant::now() + interval,
                        Ok(Err(error)) => return Some(self.errors.sql(error)),
                        // The server does not answer. A new connection may reach it.
                        Err(_) => return None,
                    }
                }
            }
        }
    }

    async fn renew(&self, client: &Client) -> Result<(), Error> {
        let (name, seconds) = (lease::process_name(), self.lease.as_secs_f64());
        client.execute(RENEW, &[&&*self.owner, &name, &seconds]).await.map(drop)
    }

    fn wake(&self) {
        self.messages.send_modify(|count| *count += 1);
    }
}
