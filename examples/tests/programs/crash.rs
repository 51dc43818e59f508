//! Runs the crash example as a program: finished steps are not repeated, interrupted repeatable
//! steps run again, and an interrupted step that must not be repeated waits for a decision.

use std::process::Command;

fn crash(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_crash")).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn times(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn it_says_what_it_did_not_repeat() {
    let (code, said, errors) = crash(&[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{said}");
    let (before, after) = said.split_once("is killed in the middle").unwrap();
    for (step, first, second) in
        [("looks it up", 1, 0), ("takes the money", 1, 0), ("packs", 1, 1), ("writes to", 1, 1)]
    {
        assert_eq!((times(before, step), times(after, step)), (first, second), "{step}: {said}");
    }
    for line in [
        "  price: is not run again\n",
        "  parcel: runs again: it was interrupted\n",
        "  letter: waits for a decision: it was interrupted and may have had its effect\n",
        "  letter: nobody knows whether it had its effect",
        "the order: a parcel with a lamp; dear customer, you have paid 400 cents\n",
        "\nnot repeated: price, receipt\nran again by itself: parcel\nran again by a person's word: letter\n",
    ] {
        assert_eq!(times(after, line), 1, "{line}: {said}");
    }
}

#[test]
fn a_file_of_ones_own_is_kept_and_can_be_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.db");
    for _ in 0..2 {
        let (code, said, errors) = crash(&[file.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{said}{errors}");
        assert!(said.contains("not repeated: price, receipt\n"), "{said}");
    }
    assert!(file.exists());
}

#[test]
fn the_command_line_is_checked() {
    for wrong in [&["--fast"][..], &["a.db", "b.db"]] {
        let (code, said, errors) = crash(wrong);
        assert_eq!((code, said.as_str()), (Some(2), ""));
        assert!(errors.starts_with("usage: crash"), "{errors}");
    }
    let (code, _, errors) = crash(&["/nowhere/at/all/runs.db"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("crash: "), "{errors}");
}
