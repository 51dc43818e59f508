//! `AddressGuard`: which addresses of the network a tool may connect to when somebody else chooses the host. It resolves and
//! connects nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses may be connected to: by default those of the public internet alone.
///
/// Whoever gives a model, a document or a stranger the choice of an address lets them reach what only this machine can: its own
/// services, those of its network, the metadata service of its cloud (server-side request forgery). So an address is looked at
/// after the name was resolved, and the connection is made to that address and no other.
///
/// Refused are the ranges that the IANA registries of special-purpose addresses (RFC 6890) do not call globally reachable: this
/// machine, private, shared, link-local, multicast, documentation and reserved ones. Of IPv6 only `2000::/3` is public. An
/// IPv4 address within one of IPv6 (mapped, 6to4, NAT64) counts as what it is.
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
    /// Beside the public ones: addresses, and how many of their first bits count.
    allowed: Vec<(IpAddr, u8)>,
}

impl AddressGuard {
    /// Allows a range beside the public ones: all addresses that have the first `bits` bits of this one. More bits than an
    /// address has are all of them.
    #[must_use]
    pub fn allow(mut self, address: IpAddr, bits: u8) -> Self {
        self.allowed.push((plain(address), bits));
        self
    }

    /// Whether an address may be connected to.
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

/// The IPv4 address that is written as one of IPv6: mapped (`::ffff:0:0/96`), 6to4 (`2002::/16`), NAT64 (`64:ff9b::/96`).
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let last = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => last(high, low),
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

/// The ranges of IPv4 that are not public.
const SPECIAL_V4: [(Ipv4Addr, u8); 16] = [
    // "This network", and the address that means this machine.
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Shared by the customers of a provider.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, where clouds have their metadata.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Benchmarks.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, and what is reserved with the broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    // Platform services of a cloud at a public address, as Azure has them.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The ranges of IPv6 within `2000::/3` that are not.
const SPECIAL_V6: [(Ipv6Addr, u8); 3] = [
    // Protocol assignments, among them Teredo, which holds an address of IPv4.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => !SPECIAL_V4.iter().any(|(of, bits)| is_within(address, IpAddr::V4(*of), *bits)),
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
        let guard = AddressGuard::default().allow("127.0.0.1".parse().unwrap(), 32).allow("fd00::".parse().unwrap(), 8);
        assert!(allows(&guard, "127.0.0.1") && allows(&guard, "::ffff:127.0.0.1") && allows(&guard, "fd12::1"));
        assert!(!allows(&guard, "127.0.0.2") && !allows(&guard, "fc12::1") && !allows(&guard, "::1"));
        let all = AddressGuard::default().allow("0.0.0.0".parse().unwrap(), 0);
        assert!(allows(&all, "10.0.0.1") && !allows(&all, "::1"));
        let one = AddressGuard::default().allow("::1".parse().unwrap(), 200);
        assert!(allows(&one, "::1") && !allows(&one, "::"));
    }
}
