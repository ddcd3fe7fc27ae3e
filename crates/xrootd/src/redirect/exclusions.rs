//! The servers that a client says it has tried: `tried=HOST,HOST&triedrc=enoent,srverr`.

use dewar_xrootd_proto::Cgi;

/// Hosts of which note is taken; a client that tried more of them has tried enough.
const HOSTS_MAX: usize = 64;

/// The hosts that a client was at in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExcludedHosts<'a> {
    hosts: Vec<&'a str>,
    /// Whether a missing file is the only reason that was given.
    only_missing: bool,
}

impl<'a> ExcludedHosts<'a> {
    pub(crate) fn of(cgi: Cgi<'a>) -> Self {
        let values = |name: &'static str| {
            let pairs = cgi.pairs().filter(move |(its, _)| *its == name);
            pairs.flat_map(|(_, value)| value.split(','))
        };
        let hosts = values("tried").map(bare).filter(|host| !host.is_empty());
        let reasons: Vec<_> = values("triedrc").filter(|why| !why.is_empty()).collect();
        Self {
            hosts: hosts.take(HOSTS_MAX).collect(),
            only_missing: !reasons.is_empty() && reasons.iter().all(|why| *why == "enoent"),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// How often a host was tried that is known by these names.
    pub(crate) fn times(&self, is: impl Fn(&str) -> bool) -> usize {
        self.hosts.iter().filter(|host| is(host)).count()
    }

    /// Whether every one of them had no such file.
    pub(crate) fn only_missing(&self) -> bool {
        self.only_missing
    }

    /// The same list with one more at its end.
    pub(crate) fn and(&self, host: &str) -> String {
        let mut list = self.hosts.clone();
        list.push(host);
        list.join(",")
    }
}

/// A host without brackets and port.
fn bare(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None if host.matches(':').count() == 1 => host.split(':').next().unwrap_or_default(),
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_is_read() {
        let cgi =
            Cgi("oss.asize=1&tried=a.b:1094,[::1]:7,a.b&x=1&triedrc=enoent,srverr&tried=,::2");
        let tried = ExcludedHosts::of(cgi);
        assert_eq!(tried.hosts, ["a.b", "::1", "a.b", "::2"]);
        assert_eq!(tried.times(|host| host == "a.b"), 2);
        assert!(!tried.only_missing() && !tried.is_empty());
        assert_eq!(tried.and("c"), "a.b,::1,a.b,::2,c");
        assert!(ExcludedHosts::of(Cgi("tried=a&triedrc=enoent")).only_missing());
        assert!(!ExcludedHosts::of(Cgi("tried=a")).only_missing());
        assert!(ExcludedHosts::of(Cgi("x=1")).is_empty());
        let many = format!("tried={}", "a,".repeat(1000));
        assert_eq!(ExcludedHosts::of(Cgi(&many)).times(|_| true), HOSTS_MAX);
    }
}
