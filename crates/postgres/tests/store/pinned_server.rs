//! The version of Postgres that the tests install on a machine without one.

use agentflow::store::PostgresStore;
use agentflow_tests::PostgresServer;

use crate::in_time;

#[tokio::test]
async fn the_server_that_tests_install_can_be_used() {
    let Some(server) = PostgresServer::start_pinned() else { return };
    in_time(async {
        let client = server.client("public").await;
        let version = client.query_one("SHOW server_version_num", &[]).await.unwrap();
        assert_eq!(version.get::<_, &str>(0), "180006");
        PostgresStore::connect(server.url()).await.unwrap();
    })
    .await;
}
