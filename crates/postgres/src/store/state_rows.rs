//! Values that outlive runs: the table `state`.

use std::collections::BTreeMap;

use agentflow_core::__private::sha256;
use agentflow_core::store::{StateWrite, StoreError};
use agentflow_core::value::Encoded;
use tokio_postgres::Error;

use super::database::Session;
use super::event_row::check_size;
use super::postgres_error::{Failed, PostgresErrors};
use super::text;

/// Changes of values, ready to be written.
pub(super) struct StateRows {
    changed: Vec<Changed>,
    removed: Vec<String>,
}

struct Changed {
    id: String,
    owner: String,
    key: String,
    value: Vec<u8>,
}

impl StateRows {
    /// Encodes changes. Each value may have at most `limit` bytes.
    pub(super) fn encode(writes: &[StateWrite], limit: u64) -> Result<Self, StoreError> {
        // The last change of a key counts. All writers lock the rows in the order of the ids, so
        // that they do not wait for each other in a circle.
        let mut by_id = BTreeMap::new();
        for write in writes {
            let size = write.value.as_ref().map_or(0, |value| value.as_str().len());
            check_size(size, limit, "a value")?;
            let owner = owner(write.user.as_deref());
            by_id.insert(id(&owner, &write.key), (owner, write));
        }
        let mut rows = Self { changed: Vec::new(), removed: Vec::new() };
        for (id, (owner, StateWrite { key, value, .. })) in by_id {
            match value {
                Some(value) => rows.changed.push(Changed {
                    id,
                    owner: text::encode(&owner).into_owned(),
                    key: text::encode(key).into_owned(),
                    value: value.as_str().as_bytes().to_vec(),
                }),
                None => rows.removed.push(id),
            }
        }
        Ok(rows)
    }

    /// Writes the changes.
    pub(super) async fn write(&self, session: &Session) -> Result<(), Error> {
        if !self.changed.is_empty() {
            let ids: Vec<&str> = self.changed.iter().map(|row| &*row.id).collect();
            let owners: Vec<&str> = self.changed.iter().map(|row| &*row.owner).collect();
            let keys: Vec<&str> = self.changed.iter().map(|row| &*row.key).collect();
            let values: Vec<&[u8]> = self.changed.iter().map(|row| &*row.value).collect();
            let sql = "INSERT INTO state (id, owner, key, value) SELECT * \
                       FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) \
                       ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value";
            session.execute(sql, &[&ids, &owners, &keys, &values]).await?;
        }
        if !self.removed.is_empty() {
            session.execute("DELETE FROM state WHERE id = ANY ($1)", &[&self.removed]).await?;
        }
        Ok(())
    }
}

/// Returns the values of an owner, sorted by key.
pub(super) async fn read(
    session: &Session,
    errors: &PostgresErrors,
    user: Option<&str>,
    key: Option<&str>,
) -> Result<Vec<(String, Encoded)>, Failed> {
    let owner = owner(user);
    let rows = match key {
        Some(key) => {
            let sql = "SELECT key, value FROM state WHERE id = $1";
            session.rows(sql, &[&id(&owner, key)]).await?
        }
        None => {
            let sql = "SELECT key, value FROM state \
                       WHERE left(owner, 200) = left($1, 200) AND owner = $1 ORDER BY key";
            session.rows(sql, &[&&*text::encode(&owner)]).await?
        }
    };
    let mut values = Vec::new();
    for row in rows {
        let (key, value): (&str, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
        let key = text::decode(key);
        let damaged =
            || errors.damaged(format_args!("the value of `{key}` in the state is not JSON"));
        let value = String::from_utf8(value).map_err(|error| damaged().caused_by(error))?;
        let value = Encoded::from_json(value).map_err(|error| damaged().caused_by(error))?;
        values.push((key, value));
    }
    Ok(values)
}

/// Returns the value of the column `owner`, for a user or for the application.
fn owner(user: Option<&str>) -> String {
    user.map_or_else(|| "app".to_owned(), |user| format!("user:{user}"))
}

/// Returns the primary key of a value. The length separates the owner from the key.
fn id(owner: &str, key: &str) -> String {
    sha256(format!("{}:{owner}{key}", owner.len()).as_bytes())
}
