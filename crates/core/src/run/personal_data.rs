//! Finds personal data in strings: card numbers, telephone numbers, email addresses and social
//! security numbers. Each function reads a string once.

use std::ops::Range;

/// Replaces the parts of a string, which may overlap, with a mark. Adjacent parts get one mark.
/// Returns `None` if there are no parts.
pub(super) fn without(text: &str, mut parts: Vec<Range<usize>>, mark: &str) -> Option<String> {
    parts.sort_by_key(|part| (part.start, part.end));
    let (mut out, mut copied, mut masked) = (String::new(), 0, false);
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if part.start >= copied && !(masked && part.start == copied) {
            out.push_str(&text[copied..part.start]);
            out.push_str(mark);
        }
        masked = true;
        copied = copied.max(part.end);
    }
    masked.then(|| out + &text[copied..])
}

/// Separators between the digit groups of a card number.
const IN_CARDS: [char; 10] =
    [' ', '-', '.', '_', '\t', '\u{a0}', '\u{2009}', '\u{202f}', '\u{2011}', '\u{2013}'];
/// Maximum number of separators between two groups.
const MOST_BETWEEN: usize = 3;

/// Finds numbers of payment cards: 13 to 19 digits in one or more groups with a valid check digit
/// (ISO/IEC 7812-1).
///
/// In a longer sequence of groups, any adjacent groups may be a card if each has at least three
/// digits and the first digits belong to a card issuer. An expiry date or a second card after a
/// number therefore does not hide it.
pub(super) fn cards(text: &str) -> Vec<Range<usize>> {
    let groups = groups_of_digits(text);
    let mut found = Vec::new();
    let mut begin = 0;
    while begin < groups.len() {
        let mut end = begin + 1;
        while end < groups.len() && is_between(&text[groups[end - 1].end..groups[end].start]) {
            end += 1;
        }
        cards_in_row(text, &groups[begin..end], &mut found);
        begin = end;
    }
    found
}

fn is_between(text: &str) -> bool {
    text.chars().take(MOST_BETWEEN + 1).count() <= MOST_BETWEEN
        && text.chars().all(|c| IN_CARDS.contains(&c))
}

fn groups_of_digits(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut groups, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let begin = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        if at > begin {
            groups.push(begin..at);
        }
        at += 1;
    }
    groups
}

fn cards_in_row(text: &str, row: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    for begin in 0..row.len() {
        let mut length = 0;
        for end in begin..row.len() {
            length += row[end].len();
            // No card number is longer.
            if length > 19 {
                break;
            }
            let groups = &row[begin..=end];
            let may_be = || may_be_card(text, groups, groups.len() == row.len());
            if length >= 13
                && may_be()
                && checks(text, groups)
                && !is_in_hash(text, row[begin].start, row[end].end)
            {
                found.push(row[begin].start..row[end].end);
            }
        }
    }
}

/// Returns `true` if groups of digits are formatted like a card number. `alone` is `true` if no
/// other digits are adjacent.
fn may_be_card(text: &str, groups: &[Range<usize>], alone: bool) -> bool {
    let (first, last) = (&groups[0], &groups[groups.len() - 1]);
    let has_points = text[first.start..last.end].contains('.');
    if has_points && !groups.iter().all(|group| (3..=6).contains(&group.len())) {
        // A decimal number.
        return false;
    }
    let digits: String = groups.iter().map(|group| &text[group.clone()]).collect();
    match groups.len() == 1 {
        // A timestamp or an id, or the digits after a decimal point.
        true if digits.starts_with(['0', '1']) || is_fraction(&text[..first.start]) => false,
        true => true,
        false if alone => true,
        false => groups.iter().all(|group| group.len() >= 3) && is_of_maker(&digits[..2]),
    }
}

/// Returns `true` if the range is part of a long hexadecimal number, such as a hash or a UUID.
fn is_in_hash(text: &str, start: usize, end: usize) -> bool {
    let is_of_one = |byte: &&u8| byte.is_ascii_hexdigit() || **byte == b'-';
    let (before, after) = (&text.as_bytes()[..start], &text.as_bytes()[end..]);
    let before: Vec<&u8> = before.iter().rev().take(LONGEST_HASH).take_while(is_of_one).collect();
    let after: Vec<&u8> = after.iter().take(LONGEST_HASH).take_while(is_of_one).collect();
    let has_letters = before.iter().chain(&after).any(|byte| byte.is_ascii_alphabetic());
    has_letters && before.len() + (end - start) + after.len() >= SHORTEST_HASH
}

/// Minimum number of digits of a hash: 128 bits.
const SHORTEST_HASH: usize = 32;
/// Number of digits that are examined on each side: 512 bits.
const LONGEST_HASH: usize = 128;

/// Returns `true` if the digits that follow `before` are the decimals of a number.
fn is_fraction(before: &str) -> bool {
    before.strip_suffix('.').is_some_and(|whole| whole.ends_with(|c: char| c.is_ascii_digit()))
}

/// Returns `true` if a card number may start with these two digits, according to the ranges of the
/// issuers: Mastercard and Mir (22 to 27), Diners Club, American Express and JCB (30, 34 to 39),
/// Visa (4), Maestro, Mastercard, Discover, `UnionPay` and `RuPay` (50 to 69, 81, 82), Troy (97).
fn is_of_maker(begin: &str) -> bool {
    matches!(begin.parse(), Ok(22..=27 | 30 | 34..=69 | 81 | 82 | 97_u32))
}

/// Returns `true` if the check digit is valid (Luhn algorithm).
fn checks(text: &str, groups: &[Range<usize>]) -> bool {
    let digits = groups.iter().rev().flat_map(|group| text.as_bytes()[group.clone()].iter().rev());
    let sum: u32 = digits
        .enumerate()
        .map(|(at, digit)| (at, u32::from(digit - b'0')))
        .map(|(at, digit)| if at % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 })
        .sum();
    sum.is_multiple_of(10)
}

/// Finds telephone numbers in the international form (ITU-T E.164): a `+` and 8 to 15 digits.
pub(super) fn phones(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (begin, plus) in
        text.match_indices(['+', '%']).map(|(at, sign)| (at, if sign == "+" { 1 } else { 3 }))
    {
        if plus == 3 && !text[begin..].get(..3).is_some_and(|sign| sign.eq_ignore_ascii_case("%2b"))
        {
            continue;
        }
        // Part of a formula or a word, such as `1+2`.
        if text[..begin].chars().next_back().is_some_and(char::is_alphanumeric) {
            continue;
        }
        let (mut digits, mut end, mut inside) = (0, begin, true);
        for (at, c) in text[begin + plus..].char_indices().map(|(at, c)| (begin + plus + at, c)) {
            match c {
                '0'..='9' if digits < 15 => {
                    digits += 1;
                    end = at + 1;
                }
                ' ' | '-' | '(' | ')' | '.' | '/' | '\u{a0}' | '\u{2011}' if digits < 15 => {}
                // A sixteenth digit: the number ends with the previous group.
                '0'..='9' => {
                    inside = false;
                    break;
                }
                _ => break,
            }
        }
        if !inside {
            let before = text[begin..end]
                .rfind(|c: char| !c.is_ascii_digit())
                .map_or(begin, |at| begin + at);
            end = text[..before]
                .rfind(|c: char| c.is_ascii_digit())
                .map_or(begin, |at| at + 1)
                .max(begin);
            digits = text[begin + plus..end.max(begin + plus)]
                .bytes()
                .filter(u8::is_ascii_digit)
                .count();
        }
        if digits >= 8 {
            found.push(begin..end);
        }
    }
    found
}

/// Maximum number of bytes examined before the `@` of an email address. RFC 5321 allows 64 for the
/// name. An address within a URL includes the text before it.
const LONGEST_NAME: usize = 256;

/// Finds email addresses, also with a percent-encoded `@`.
pub(super) fn emails(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, sign) in text.match_indices(['@', '%']) {
        let sign = match sign {
            "@" => 1,
            _ => match escaped_at(&text[at..]) {
                Some(length) => length,
                None => continue,
            },
        };
        // Addresses do not overlap.
        let from = found.last().map_or(0, |last| last.end);
        if at < from {
            continue;
        }
        let is_name = |c: char| c.is_alphanumeric() || "._%+-'\u{2019}!#$&*=?^~".contains(c);
        let from = (from.max(at.saturating_sub(LONGEST_NAME))..at)
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(at);
        let begin = text[from..at]
            .rfind(|c| !is_name(c))
            .map_or(from, |not| from + not + not_length(&text[from + not..]));
        // An address starts with a letter or digit.
        let begin = begin + text[begin..at].find(char::is_alphanumeric).unwrap_or(at - begin);
        let host = &text[at + sign..];
        if begin < at
            && let Some(length) = host_length(host)
        {
            found.push(begin..at + sign + length);
        }
    }
    found
}

fn not_length(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// Returns the length of a percent-encoded `@`, encoded once or several times.
fn escaped_at(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('%')?;
    let deep = rest.len() - rest.trim_start_matches("25").len();
    rest[deep..].starts_with("40").then_some(1 + deep + 2)
}

/// Returns the length of a host name at the start of a string: labels separated by dots, where the
/// last label has at least two letters and no other characters.
fn host_length(text: &str) -> Option<usize> {
    let end =
        text.find(|c: char| !(c.is_alphanumeric() || c == '-' || c == '.')).unwrap_or(text.len());
    let mut longest = None;
    let mut at = 0;
    for (number, label) in text[..end].split('.').enumerate() {
        let letters = label.find(|c: char| !c.is_alphabetic()).unwrap_or(label.len());
        if number == 0 && label.is_empty() {
            return None;
        }
        if number > 0 && label[..letters].chars().count() >= 2 {
            longest = Some(at + letters);
        }
        // An internationalized label (punycode).
        if number > 0 && label.starts_with("xn--") {
            longest = Some(at + label.len());
        }
        at += label.len() + 1;
    }
    longest
}

/// Finds numbers in the format of US social security numbers: `123-45-6789`.
pub(super) fn social_security_numbers(text: &str) -> Vec<Range<usize>> {
    let groups = groups_of_digits(text);
    let joined = |one: &Range<usize>, other: &Range<usize>| {
        matches!(&text[one.end..other.start], "-" | "\u{2010}" | "\u{2011}" | "\u{2013}")
    };
    let is_number = |three: &&[Range<usize>]| match three {
        [area, group, serial] => {
            [area.len(), group.len(), serial.len()] == [3, 2, 4]
                && joined(area, group)
                && joined(group, serial)
        }
        _ => false,
    };
    groups.windows(3).filter(is_number).map(|three| three[0].start..three[2].end).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Find = fn(&str) -> Vec<Range<usize>>;

    fn masked(find: Find, text: &str) -> String {
        without(text, find(text), "#").unwrap_or_else(|| text.to_owned())
    }

    fn check(find: Find, all: &[(&str, &str)]) {
        for (text, expected) in all {
            assert_eq!(&masked(find, text), expected, "{text}");
        }
    }

    #[test]
    fn cards_beside_other_numbers() {
        check(
            cards,
            &[
                ("4111 1111 1111 1111 12/27 123", "# 12/27 123"),
                ("4111111111111111 5500005555555559", "# #"),
                ("order 12 4111 1111 1111 1111", "order 12 #"),
                ("4111-1111-1111-1111-123", "#-123"),
                ("3782 822463 10005;4111\u{a0}1111\u{a0}1111\u{a0}1111", "#;#"),
                ("4111.1111.1111.1111 and 4111 - 1111 - 1111 - 1111", "# and #"),
                ("card4111111111111111x", "card#x"),
                ("4111111111111111.", "#."),
                // Numbers that are not cards.
                (
                    "3.141592653589793 0.8414709848078965 2.718281828459045",
                    "3.141592653589793 0.8414709848078965 2.718281828459045",
                ),
                (
                    "2019 2020 2021 2022 2023 2024 2025 2026",
                    "2019 2020 2021 2022 2023 2024 2025 2026",
                ),
                ("03 17 22 31 40 44 07 11 18 23 34 39", "03 17 22 31 40 44 07 11 18 23 34 39"),
                ("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14"),
                ("at 1763766000000", "at 1763766000000"),
                (
                    "sha256:9f86da4111111111111111d15d6c15b0f00a08",
                    "sha256:9f86da4111111111111111d15d6c15b0f00a08",
                ),
                ("123e4567-e89b-12d3-4111-411111111111", "123e4567-e89b-12d3-4111-411111111111"),
                ("", ""),
            ],
        );
    }

    #[test]
    fn telephone_numbers_beside_each_other() {
        check(
            phones,
            &[
                ("+49 30 1234567 +1 202 555 0100", "# #"),
                ("+49 30 1234567, +1-202-555-0100.", "#, #."),
                ("(+49) 30/1234567 now", "(# now"),
                ("+49 30 1234567 2026 11 23", "# 11 23"),
                ("tel=%2B49301234567&x=1", "tel=#&x=1"),
                ("+12345678901234567890", "+12345678901234567890"),
                ("1+23456789 and a+23456789", "1+23456789 and a+23456789"),
                ("+1 2 3", "+1 2 3"),
                ("50%+", "50%+"),
                ("%é", "%é"),
            ],
        );
    }

    #[test]
    fn addresses_of_mail_however_they_stand() {
        check(
            emails,
            &[
                ("ada%40example.org", "#"),
                ("x=ada%2540example.org&y", "#&y"),
                ("ada@example.org-bob@example.org", "#-#"),
                ("<ada.l+tag@example.co.uk>,bob@b\u{fc}cher.example", "<#>,#"),
                ("o'neil@example.org", "#"),
                ("ada@xn--bcher-kva.example: a@b.xn--p1ai", "#: #"),
                ("ada@example.org.", "#."),
                ("mailto:ada@example.org?subject=x", "mailto:#?subject=x"),
                (
                    "a@b is no address, @b.example neither, a@.example nor a@1.2.3",
                    "a@b is no address, @b.example neither, a@.example nor a@1.2.3",
                ),
                ("100%40", "100%40"),
            ],
        );
    }

    #[test]
    fn social_security_numbers_within_other_digits() {
        check(
            social_security_numbers,
            &[
                ("123-45-6789-01", "#-01"),
                ("ssn:123-45-6789,987\u{2011}65\u{2011}4321", "ssn:#,#"),
                (
                    "1234-45-6789 123-456-789 123-45-67890 123 45 6789",
                    "1234-45-6789 123-456-789 123-45-67890 123 45 6789",
                ),
            ],
        );
    }

    /// Appends the check digit.
    fn with_check_digit(mut digits: Vec<u8>) -> String {
        let double = |digit: u8| digit * 2 / 10 + digit * 2 % 10;
        let sum: u32 = digits
            .iter()
            .rev()
            .enumerate()
            .map(|(at, digit)| u32::from(if at % 2 == 0 { double(*digit) } else { *digit }))
            .sum();
        digits.push(((10 - sum % 10) % 10) as u8);
        digits.iter().map(|digit| char::from(b'0' + digit)).collect()
    }

    fn card() -> impl Strategy<Value = String> {
        let begin = proptest::sample::select(&[4_u8, 5, 6][..]);
        let rest = proptest::collection::vec(0..10_u8, 11..=17);
        (
            begin,
            rest,
            3..=6_usize,
            proptest::sample::select(&["", " ", "-", ".", "\u{a0}", " - "][..]),
        )
            .prop_map(|(begin, rest, size, between)| {
                let digits = with_check_digit([&[begin], &rest[..]].concat());
                let mut groups: Vec<String> = digits
                    .as_bytes()
                    .chunks(size)
                    .map(|group| String::from_utf8(group.to_vec()).unwrap())
                    .collect();
                // Merges a last group that is shorter than the groups of a card.
                if groups.last().is_some_and(|last| last.len() < 3) {
                    let last = groups.pop().unwrap();
                    let before = groups.pop().unwrap();
                    groups.push(before + &last);
                }
                match groups.iter().any(|group| group.len() > 6) && between == "." {
                    true => digits,
                    false => groups.join(between),
                }
            })
    }

    fn around() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            "[a-z]{1,8}",
            "[0-9]{1,4}",
            "[0-9]{4}-[0-9]{2}-[0-9]{2}",
            "[0-9]{2}/[0-9]{2}",
            "[.,:;!?]"
        ];
        proptest::collection::vec(word, 0..6).prop_map(|words| words.join(" "))
    }

    proptest! {
        /// A card is masked completely, next to any other text.
        #[test]
        fn a_card_is_found_wherever_it_stands(before in around(), card in card(), after in around()) {
            let (begin, text) = (before.len() + 1, format!("{before} {card} {after}"));
            let found = cards(&text);
            let is_masked = |at: usize| found.iter().any(|part| part.contains(&at));
            let whole = (begin..begin + card.len()).all(is_masked);
            prop_assert!(whole, "{text:?}: {found:?}");
        }

        /// The functions return valid ranges for any text.
        #[test]
        fn any_text_is_read(text in "[-0-9a-c@%+.( \u{e9}\u{2011}\u{1f511}]{0,60}") {
            for find in [cards as Find, phones, emails, social_security_numbers] {
                for part in find(&text) {
                    prop_assert!(text.get(part.clone()).is_some_and(|part| !part.is_empty()), "{part:?} of {text:?}");
                }
                masked(find, &text);
            }
        }
    }

    /// Hostile strings of a megabyte are read in linear time.
    #[test]
    fn long_texts_are_read_once() {
        for part in ["1", "1 ", "4111 ", "%40", "a@", "+", "+1", "123-45-", "a.", "@a.", "%25"] {
            let text = part.repeat((1 << 20) / part.len());
            for find in [cards as Find, phones, emails, social_security_numbers] {
                find(&text);
            }
        }
    }
}
