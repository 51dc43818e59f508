//! Creates the tables of a store, and upgrades tables of an older release.
//!
//! The scripts are in `schema/`. Do not change the files there, because stores with these tables
//! exist: a new version of the tables adds a file. All pending scripts are executed in one
//! transaction, under an advisory lock, so that processes can start at the same time.

use std::time::Duration;

use agentflow_core::__private::sha256;
use agentflow_core::store::StoreError;
use tokio_postgres::error::SqlState;

use super::database::{Database, Session};
use super::postgres_error::{Failed, PostgresErrors};

/// Migration scripts. Each upgrades the tables by one version.
const MIGRATIONS: [&str; 3] =
    [include_str!("schema/1.sql"), include_str!("schema/2.sql"), include_str!("schema/3.sql")];

/// Version of the tables that this release writes.
const VERSION: i32 = MIGRATIONS.len() as i32;

/// Maximum distance to the version of a newer release. A larger number is treated as damage.
const PLAUSIBLE: i32 = 1_000;

/// Oldest supported server, as in `server_version_num`.
const SERVER: i32 = 130_000;

/// Time limit for creating or upgrading the tables. An upgrade may rewrite a large table.
const LIMIT: Duration = Duration::from_secs(600);

/// Creates or upgrades the tables. Returns the identity of the store.
pub(super) async fn migrate(database: &Database, schema: &str) -> Result<String, StoreError> {
    let errors = database.errors();
    let found = database
        .read(async |session: Session| {
            check_server(&session, errors).await?;
            version(&session, errors, schema).await
        })
        .await?;
    if let Some((VERSION, store)) = found {
        return Ok(store);
    }
    let lock = lock_key(schema);
    database
        .write_within(LIMIT, async |session: Session, _| {
            session.script("SET LOCAL statement_timeout = 0").await?;
            session.row("SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
            // Another process may have migrated the tables in the meantime.
            upgrade(&session, errors, schema).await
        })
        .await
}

/// Returns the key of the advisory lock of a schema. It has no meaning outside of this crate.
fn lock_key(schema: &str) -> i64 {
    let hash = sha256(format!("agentflow store {schema}").as_bytes());
    i64::from_str_radix(&hash[..15], 16).unwrap_or_default()
}

async fn check_server(session: &Session, errors: &PostgresErrors) -> Result<(), Failed> {
    let sql = "SELECT current_setting('server_version_num')::int4, \
               current_setting('server_encoding'), current_setting('server_version')";
    let Some(row) = session.row(sql, &[]).await? else { return Ok(()) };
    let (number, encoding, version): (i32, String, String) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if number < SERVER {
        let what = format!("Postgres {version} is too old; update the server to 13 or later");
        return Err(errors.io(what).into());
    }
    if encoding != "UTF8" {
        let what =
            format!("the database has the encoding {encoding}; create one with `ENCODING 'UTF8'`");
        return Err(errors.io(what).into());
    }
    Ok(())
}

/// Returns the version of the tables and the identity of the store; `None` if the schema has no
/// tables of a store.
async fn version(
    session: &Session,
    errors: &PostgresErrors,
    schema: &str,
) -> Result<Option<(i32, String)>, Failed> {
    // The catalogue is read as a table. `to_regclass` would use the search path as it was at the
    // start of the transaction, without a schema that another process has created since.
    let sql = "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
               WHERE nspname = $1::text AND relname = 'agentflow_store'";
    if session.row(sql, &[&schema]).await?.is_none() {
        return Ok(None);
    }
    let sql = format!(
        "SELECT version, store_id || ':' || current_database() FROM \"{schema}\".agentflow_store"
    );
    let rows = session.composed_rows(&sql, &[]).await?;
    let Some(row) = rows.first() else {
        return Err(errors.damaged("the table `agentflow_store` is empty").into());
    };
    let (version, store): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
    match version {
        1..=VERSION => Ok(Some((version, store))),
        _ if version > VERSION && version - VERSION <= PLAUSIBLE => {
            Err(errors.newer(format_args!("the table layout {version}")).into())
        }
        _ => {
            let what = format_args!("the table layout has the version {version}");
            Err(errors.damaged(what).into())
        }
    }
}

async fn upgrade(
    session: &Session,
    errors: &PostgresErrors,
    schema: &str,
) -> Result<String, Failed> {
    let found = version(session, errors, schema).await?;
    if found.is_none() {
        // A user without the right to create schemas may use an existing schema.
        let sql = "SELECT 1 FROM pg_namespace WHERE nspname = $1::text";
        if session.row(sql, &[&schema]).await?.is_none() {
            session.script(&format!("CREATE SCHEMA \"{schema}\"")).await?;
        }
    }
    let from = found.as_ref().map_or(0, |(version, _)| *version);
    for migration in &MIGRATIONS[usize::try_from(from).unwrap_or_default()..] {
        match session.script(migration).await {
            Err(error) if error.code() == Some(&SqlState::DUPLICATE_TABLE) => {
                let what = format!(
                    "the schema `{schema}` contains tables of another program; give the store a \
                     schema of its own"
                );
                return Err(errors.io(what).caused_by(error).into());
            }
            done => done?,
        }
    }
    if found.is_some() {
        session.execute("UPDATE agentflow_store SET version = $1", &[&VERSION]).await?;
    } else {
        let store = format!("{:032x}", fastrand::u128(..));
        let sql = "INSERT INTO agentflow_store (version, store_id) VALUES ($1, $2)";
        session.execute(sql, &[&VERSION, &store]).await?;
    }
    match version(session, errors, schema).await? {
        Some((_, store)) => Ok(store),
        None => Err(errors.io("the tables could not be created").into()),
    }
}
