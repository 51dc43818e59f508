//! Creation of files that only the user of the process can read and write, since they contain
//! conversations and tokens.

use std::fs::OpenOptions;

/// Sets the mode of files that these options create to 0600. A file that exists keeps its mode.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}
