//! The background task of a store, with a separate connection: it renews the lease of the process
//! and listens for messages. A pool that is busy with long statements does not delay it.

use std::sync::Arc;
use std::time::Duration;

use agentflow_core::store::StoreError;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::{Client, Config, Error};

use super::database::{CONNECT, Param};
use super::lease::{self, RENEW_AND_ECHO};
use super::notices::{Notices, echo};
use super::postgres_error::PostgresErrors;
use super::tls::Connector;

/// First pause after the connection was lost. It doubles with each failure.
const PAUSE: Duration = Duration::from_millis(100);

/// Longest pause. It is shorter if the lease requires it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The background task.
pub(super) struct Background {
    pub(super) config: Config,
    pub(super) connector: Connector,
    pub(super) setup: String,
    pub(super) channel: String,
    pub(super) owner: Arc<str>,
    pub(super) lease: Duration,
    pub(super) errors: PostgresErrors,
    pub(super) notices: Arc<Notices>,
}

impl Background {
    /// Runs until the task is dropped. Connects again after a connection was lost.
    pub(super) async fn run(self) {
        let longest = LONGEST_PAUSE.min(self.lease / 3);
        let (mut is_reported, mut pause) = (false, PAUSE.min(longest));
        loop {
            let error = match self.connect().await {
                Ok((client, payloads)) => {
                    if is_reported {
                        tracing::info!("the store is connected to Postgres again");
                    }
                    is_reported = false;
                    // Notifications may have been sent while there was no connection.
                    self.notices.may_be_lost();
                    let (was_renewed, error) = self.serve(&client, payloads).await;
                    if was_renewed {
                        pause = PAUSE.min(longest);
                    }
                    error
                }
                Err(error) => Some(error),
            };
            self.notices.may_be_lost();
            if let Some(error) = error.filter(|_| !is_reported) {
                tracing::warn!(%error, "the lease of this process cannot be renewed; trying again");
                is_reported = true;
            }
            // At random, so that the processes do not all connect at the same moment.
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = longest.min(pause * 2);
        }
    }

    async fn connect(&self) -> Result<(Client, mpsc::UnboundedReceiver<String>), StoreError> {
        let (sender, payloads) = mpsc::unbounded_channel();
        let connecting = async {
            let (client, _) = self.connector.open(&self.config, Some(sender)).await?;
            client.batch_execute(&format!("{}; LISTEN {}", self.setup, self.channel)).await?;
            Ok(client)
        };
        match timeout(CONNECT, connecting).await {
            Ok(Ok(client)) => Ok((client, payloads)),
            Ok(Err(error)) => Err(self.errors.sql(error)),
            Err(_) => Err(self.errors.no_answer()),
        }
    }

    /// Renews the lease and receives notifications until the connection is lost. Returns `true` if
    /// the lease was renewed, and the error, if there is one.
    async fn serve(
        &self,
        client: &Client,
        mut payloads: mpsc::UnboundedReceiver<String>,
    ) -> (bool, Option<StoreError>) {
        let interval = self.lease / 3;
        let (mut next, mut was_renewed) = (Instant::now(), false);
        loop {
            tokio::select! {
                payload = payloads.recv() => match payload {
                    Some(payload) => self.notices.receive(&payload, &self.owner),
                    // The task that reads from the connection has ended.
                    None => return (was_renewed, None),
                },
                () = sleep_until(next) => {
                    match timeout(interval, self.renew(client)).await {
                        Ok(Ok(())) => {
                            was_renewed = true;
                            next = Instant::now() + interval;
                        }
                        Ok(Err(error)) => return (was_renewed, Some(self.errors.sql(error))),
                        // The server does not answer. A new connection may reach it.
                        Err(_) => return (was_renewed, None),
                    }
                }
            }
        }
    }

    async fn renew(&self, client: &Client) -> Result<(), Error> {
        let (name, seconds) = (lease::process_name(), self.lease.as_secs_f64());
        let echo = echo(&self.owner);
        let params: [Param<'_>; 5] = [&&*self.owner, &name, &seconds, &self.channel, &echo];
        client.execute(RENEW_AND_ECHO, &params).await.map(drop)
    }
}
