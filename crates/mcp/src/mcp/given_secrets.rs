//! Finds keys in the environment and the arguments of a server's process.

use super::mcp_settings::CommandLine;

/// Words that mark the value of a variable or an option as a key.
const WORDS: [&str; 8] = ["AUTH", "DSN", "KEY", "KEYS", "PASS", "PAT", "PWD", "SIG"];
/// Parts of words that mark a key, as in `APIKEY` and `PASSWORD`.
const PARTS: [&str; 9] = [
    "APIKEY",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "CREDENTIAL",
    "PASSW",
    "SECRET",
    "SIGNATURE",
    "TOKEN",
];
/// Authentication schemes that precede a key in the value of a header.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// Returns the keys of a command line: values of options and variables with the name of a key, keys
/// in header values, and passwords in addresses.
pub(super) fn secrets_of(command: &CommandLine) -> Vec<String> {
    let mut secrets = Vec::new();
    for (name, value) in &command.environment {
        find(name, value, &mut secrets);
    }
    if command.inherits {
        for (name, value) in std::env::vars_os() {
            if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
                find(name, value, &mut secrets);
            }
        }
    }
    // Options come as `--api-key=VALUE` and as `--api-key VALUE`.
    let mut option = "";
    for argument in &command.arguments {
        let is_option = argument.starts_with('-');
        match argument.split_once('=').filter(|_| is_option) {
            Some((name, value)) => {
                find(name, value, &mut secrets);
                option = "";
            }
            None => {
                find(option, argument, &mut secrets);
                option = if is_option { argument } else { "" };
            }
        }
    }
    secrets
}

fn find(name: &str, value: &str, secrets: &mut Vec<String>) {
    if names_key(name) {
        secrets.push(value.to_owned());
    }
    // Finds the user name and the password of an address such as `postgres://USER:PASSWORD@HOST`.
    if let Some((_, rest)) = value.split_once("://")
        && let Some((user, _)) =
            rest.split(['/', '?', '#']).next().unwrap_or_default().rsplit_once('@')
    {
        secrets.push(user.to_owned());
        secrets.extend(user.split_once(':').map(|(_, password)| password.to_owned()));
    }
    // Finds the key of `Authorization: Bearer KEY`, also inside JSON.
    let mut is_next = false;
    for word in value.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',')) {
        if word.is_empty() {
            continue;
        }
        if is_next {
            secrets.push(word.to_owned());
        }
        is_next = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    }
}

/// Returns `true` if a variable or an option with this name holds a key.
fn names_key(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // `PWD` and `OLDPWD` hold folders of the shell, not passwords.
    if matches!(&*name, "PWD" | "OLDPWD") {
        return false;
    }
    PARTS.iter().any(|part| name.contains(part))
        || name.split(['_', '-', '.']).any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_name_scheme_and_address() {
        let environment = [
            ("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_1"),
            ("DATABASE_URL", "postgres://ada:hunter22@h.test/db"),
            ("HEADERS", "{\"Authorization\": \"Bearer ntn_77\"}"),
            ("FOLDER", "/srv/notes"),
            ("GIT_AUTHOR_NAME", "Ada Lovelace"),
            ("AWS_REGION", "us-east-1"),
            ("KEYBOARD", "qwerty"),
        ];
        let command = CommandLine {
            arguments: [
                "-y",
                "notes",
                "--api-key",
                "sk-1",
                "--token=sk-2",
                "--folder",
                "/srv",
                "--header",
                "X: Basic c2Vj",
            ]
            .map(ToOwned::to_owned)
            .to_vec(),
            environment: environment
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..CommandLine::default()
        };
        let mut found = secrets_of(&command);
        found.sort();
        assert_eq!(found, ["ada:hunter22", "c2Vj", "ghp_1", "hunter22", "ntn_77", "sk-1", "sk-2"]);
    }
}
