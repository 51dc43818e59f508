//! SHA-256 in hexadecimal digits, of definitions and artifacts.

use std::fmt::Write;

/// Computes the hash of some bytes, as 64 hexadecimal digits in lower case.
pub fn sha256(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(64);
    for byte in hmac_sha256::Hash::hash(bytes) {
        write!(digits, "{byte:02x}").expect("writing to a String does not fail");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::sha256;

    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            sha256(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        assert_eq!(
            sha256(&[b'a'; 1_000_000]),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }

    #[test]
    fn every_length_around_a_block_is_padded() {
        let hashes: std::collections::HashSet<String> =
            (0..200).map(|length| sha256(&vec![0; length])).collect();
        assert_eq!(hashes.len(), 200);
    }
}
