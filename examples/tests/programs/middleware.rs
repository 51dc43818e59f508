//! Runs the middleware example as a program, offline: the log contains the results of the inner
//! layers, in the order of the calls.

use std::process::Command;

#[test]
fn layers_stand_in_their_order() {
    let output = Command::new(env!("CARGO_BIN_EXE_middleware")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 8, "{said}");
    assert_eq!(lines[1], r#"customer {"name":"Ada"}"#);
    assert_eq!(lines[2], r#"customer answers "Ada pays with ************1234, since 2019""#);
    assert_eq!(lines[4], r#"customer {"name":"Grace"}"#);
    assert!(lines[5].contains("may call tools 1 times"), "{said}");
    assert!(
        lines[0].starts_with("clerk asks ") && lines[0] == lines[3] && lines[3] == lines[6],
        "{said}"
    );
    assert!(!said.contains("4000123412341234"), "{said}");
    assert!(
        lines[7].starts_with("the answer: ") && lines[7].contains("answer with what you have"),
        "{said}"
    );
}
