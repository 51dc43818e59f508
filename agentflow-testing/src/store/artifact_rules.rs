//! Rules of the artifacts of a run: bytes that a store keeps by their hash.

use std::sync::Arc;

use agentflow::RunId;
use agentflow::serde_json::json;
use agentflow::store::{Append, Epoch, StoreErrorKind};

use super::{StorePart, StoreUnderTest, event, run};

/// SHA-256 hashes of `abc`, of no bytes, and of a million bytes `a`.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const LARGE: &str = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

fn large() -> Arc<[u8]> {
    vec![b'a'; 1_000_000].into()
}

pub(super) async fn bytes_are_kept_for_their_run(t: &StoreUnderTest) {
    let (id, other) = (run("a"), run("b"));
    let bytes: Arc<[u8]> = (*b"abc").into();
    let missing = t.artifacts().put_artifact(&id, Epoch(1), ABC, bytes.clone()).await;
    t.fails(missing, StoreErrorKind::NotFound, "keeping bytes of an unknown run");
    let first = t.created(&id).await;
    t.created(&other).await;
    for _ in 0..2 {
        t.ok(t.artifacts().put_artifact(&id, first, ABC, bytes.clone()).await, "keeping bytes");
        let found = t.ok(t.artifacts().artifact(&id, ABC).await, "asking for them");
        t.same(found.as_deref(), Some(&b"abc"[..]), "they are as they were");
    }
    t.same(
        t.ok(t.artifacts().artifact(&other, ABC).await, "asking another run for them"),
        None,
        "they are of one run",
    );
    let epoch = t.ok(t.store.open(&id).await, "opening the run again");
    let late = t.artifacts().put_artifact(&id, first, ABC, bytes.clone()).await;
    t.fails(late, StoreErrorKind::Fenced, "keeping bytes with an old epoch");
    if t.has(StorePart::Deletion) {
        let end = event(&id, 2, "", "run.cancelled", &json!({"reason": "enough"}));
        t.ok(t.store.append(&id, epoch, Append::new(1, vec![end])).await, "ending the run");
        t.ok(t.store.delete(&id).await, "deleting it");
        t.created(&id).await;
        t.same(
            t.ok(t.artifacts().artifact(&id, ABC).await, "asking again"),
            None,
            "they are deleted with their run",
        );
    }
}

pub(super) async fn the_same_bytes_are_of_each_run_that_saved_them(t: &StoreUnderTest) {
    let runs = [run("a"), run("b")];
    for id in &runs {
        let epoch = t.created(id).await;
        // A store may keep large bytes in a different place than small ones. Both, and empty bytes,
        // must be returned unchanged.
        for (hash, bytes) in [(LARGE, large()), (NOTHING, Vec::new().into()), (LARGE, large())] {
            t.ok(t.artifacts().put_artifact(id, epoch, hash, bytes.clone()).await, "keeping bytes");
            t.same(
                t.ok(t.artifacts().artifact(id, hash).await, "asking for them") == Some(bytes),
                true,
                "they are as they were",
            );
        }
        let end = event(id, 2, "", "run.cancelled", &json!({"reason": "enough"}));
        t.ok(t.store.append(id, epoch, Append::new(1, vec![end])).await, "ending the run");
    }
    if t.has(StorePart::Deletion) {
        let found = async |id| {
            t.ok(t.artifacts().artifact(id, LARGE).await, "asking for them") == Some(large())
        };
        t.ok(t.store.delete(&runs[0]).await, "deleting one of two runs that saved the same bytes");
        t.same(found(&runs[0]).await, false, "the bytes of a run that was deleted are gone");
        t.same(found(&runs[1]).await, true, "those of the other run are there");
        t.ok(t.store.delete(&runs[1]).await, "deleting the other one");
        t.same(found(&runs[1]).await, false, "the bytes of no run are gone");
        let epoch = t.created(&runs[0]).await;
        t.ok(
            t.artifacts().put_artifact(&runs[0], epoch, LARGE, large()).await,
            "keeping them again",
        );
        t.same(found(&runs[0]).await, true, "they are there again");
    }
}

/// Stores the bytes that [`is_filled`] expects after the store is opened again.
pub(super) async fn fill(t: &StoreUnderTest, id: &RunId, epoch: Epoch) {
    t.ok(t.artifacts().put_artifact(id, epoch, LARGE, large()).await, "keeping bytes");
    t.ok(t.artifacts().put_artifact(id, epoch, ABC, (*b"abc").into()).await, "keeping bytes");
}

pub(super) async fn is_filled(t: &StoreUnderTest, id: &RunId) {
    let found = t.ok(t.artifacts().artifact(id, LARGE).await, "asking for large bytes");
    t.same(found == Some(large()), true, "the large bytes are there");
    t.same(
        t.ok(t.artifacts().artifact(id, ABC).await, "asking for bytes").as_deref(),
        Some(&b"abc"[..]),
        "the bytes are there",
    );
}

/// Checks that the bytes of [`fill`] are gone, although a run with the same id exists.
pub(super) async fn is_gone(t: &StoreUnderTest, id: &RunId) {
    for hash in [LARGE, ABC] {
        t.same(
            t.ok(t.artifacts().artifact(id, hash).await, "asking for bytes"),
            None,
            "they are deleted with their session",
        );
    }
}
