//! Checks the addresses that a tool may connect to when a model, a document or a user chooses the
//! host. This module does not resolve names or open connections.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A list of the IP addresses that a tool may connect to. By default, only addresses of the public
/// internet are allowed.
///
/// If a model or a document can choose an address, it can reach services that only this machine can
/// reach: local services, services of the private network, the metadata service of the cloud
/// (server-side request forgery). The callers of this type therefore check each address after the
/// name was resolved, and connect to the checked address only.
///
/// The guard refuses the ranges that the IANA registries of special-purpose addresses (RFC 6890) do
/// not list as globally reachable: loopback, private, shared, link-local, multicast, documentation
/// and reserved ranges. Of IPv6, only `2000::/3` is public. An IPv4 address embedded in an IPv6
/// address (mapped, 6to4, NAT64) is checked as the IPv4 address.
///
/// ```
/// use agentflow::tools::AddressGuard;
///
/// let guard = AddressGuard::default().allow("10.1.0.0".parse().unwrap(), 16);
/// assert!(guard.allows("93.184.216.34".parse().unwrap()));
/// assert!(guard.allows("10.1.2.3".parse().unwrap()));
/// assert!(!guard.allows("127.0.0.1".parse().unwrap()));
/// assert!(!guard.allows("::ffff:169.254.169.254".parse().unwrap()));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[doc(alias = "SSRF")]
pub struct AddressGuard {
    /// Allowed ranges in addition to the public ones: an address and the length of the prefix in
    /// bits.
    allowed: Vec<(IpAddr, u8)>,
}

impl AddressGuard {
    /// Allows a range in addition to the public addresses: all addresses that share the first
    /// `bits` bits with `address`. A `bits` that exceeds the length of the address means the full
    /// length.
    #[must_use]
    pub fn allow(mut self, address: IpAddr, bits: u8) -> Self {
        self.allowed.push((plain(address), bits));
        self
    }

    /// Returns true if a tool may connect to this address.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = plain(address);
        is_public(address) || self.allowed.iter().any(|(of, bits)| is_within(address, *of, *bits))
    }
}

impl fmt::Debug for AddressGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.allowed.iter().map(|(address, bits)| format!("{address}/{bits}"));
        f.debug_list().entry(&"public").entries(ranges).finish()
    }
}

/// Returns the IPv4 address that is embedded in an IPv6 address: mapped (`::ffff:0:0/96`), 6to4
/// (`2002::/16`) or NAT64 (`64:ff9b::/96`). Returns other addresses unchanged.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let last = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            last(high, low)
        }
        [0x2002, high, low, ..] => last(high, low),
        _ => address,
    }
}

fn is_within(address: IpAddr, of: IpAddr, bits: u8) -> bool {
    match (address, of) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.leading_zeros() >= u32::from(bits).min(32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.leading_zeros() >= u32::from(bits).min(128)
        }
        _ => false,
    }
}

/// IPv4 ranges that are not public.
const SPECIAL_V4: [(Ipv4Addr, u8); 16] = [
    // "This network", and the unspecified address, which connects to this machine.
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Carrier-grade NAT: shared by the customers of a provider.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local. Cloud metadata services are in this range.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Benchmarks (RFC 2544).
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, then the reserved range with the broadcast address.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    // The platform services of Azure, which have a public address.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// Ranges within `2000::/3` that are not public.
const SPECIAL_V6: [(Ipv6Addr, u8); 3] = [
    // Protocol assignments. They include Teredo, which embeds an IPv4 address.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => {
            !SPECIAL_V4.iter().any(|(of, bits)| is_within(address, IpAddr::V4(*of), *bits))
        }
        IpAddr::V6(_) => {
            let global = IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0));
            is_within(address, global, 3)
                && !SPECIAL_V6.iter().any(|(of, bits)| is_within(address, IpAddr::V6(*of), *bits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AddressGuard;

    fn allows(guard: &AddressGuard, address: &str) -> bool {
        guard.allows(address.parse().unwrap())
    }

    #[test]
    fn what_is_public_and_what_is_not() {
        let guard = AddressGuard::default();
        for address in [
            "8.8.8.8",
            "93.184.216.34",
            "172.15.255.255",
            "172.32.0.1",
            "100.63.255.255",
            "100.128.0.0",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "169.253.0.1",
            "2606:4700::1111",
            "2001:200::1",
            "2a00:1450::1",
            "64:ff9b::8.8.8.8",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(allows(&guard, address), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:0:4136:e378::",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "5f00::1",
            "4000::1",
        ] {
            assert!(!allows(&guard, address), "{address}");
        }
    }

    #[test]
    fn a_range_is_allowed_however_it_is_written() {
        let guard = AddressGuard::default()
            .allow("127.0.0.1".parse().unwrap(), 32)
            .allow("fd00::".parse().unwrap(), 8);
        assert!(
            allows(&guard, "127.0.0.1")
                && allows(&guard, "::ffff:127.0.0.1")
                && allows(&guard, "fd12::1")
        );
        assert!(
            !allows(&guard, "127.0.0.2") && !allows(&guard, "fc12::1") && !allows(&guard, "::1")
        );
        let all = AddressGuard::default().allow("0.0.0.0".parse().unwrap(), 0);
        assert!(allows(&all, "10.0.0.1") && !allows(&all, "::1"));
        let one = AddressGuard::default().allow("::1".parse().unwrap(), 200);
        assert!(allows(&one, "::1") && !allows(&one, "::"));
    }
}
