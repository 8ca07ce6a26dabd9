//! Examines hardware and software of a node, for the comparison of nodes before anything is measured.

use crate::message::Facts;
use forebay_calibrate::probe::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// Examines this node: its interface with the address `own`, and the file system of `directory`.
#[must_use]
pub fn look(own: IpAddr, directory: &Path) -> Facts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let machine = Machine::look(directory);
    let free = rustix::fs::statvfs(directory).ok();
    let interface = interface(own).unwrap_or_default();
    let of_interface = |what: &str| read(&format!("/sys/class/net/{interface}/{what}"));
    let mut named: BTreeMap<String, String> = [
        ("processor", machine.model.clone()),
        ("kernel", machine.kernel.clone()),
        ("file system", machine.file_system.clone()),
        ("mount", mount(directory, &read("/proc/self/mountinfo"))),
        ("interface", interface.clone()),
        ("MTU", of_interface("mtu")),
        ("GPUs", gpus()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    named.retain(|_, value| !value.is_empty());
    Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot: read("/proc/sys/kernel/random/boot_id"),
        cores: machine.cores,
        memory: machine.memory,
        gpus: forebay_calibrate::probe::gpu::together::usable(),
        named,
        free: free.map(|of| of.f_bavail.saturating_mul(of.f_frsize)),
    }
}

/// Returns what is mounted at `directory`, and where, given a text in the format of `/proc/self/mountinfo`: `server:/export at /nfs`.
fn mount(directory: &Path, mounts: &str) -> String {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let one = |line: &str| {
        let (mount, of) = line.split_once(" - ")?;
        let point = plain(mount.split(' ').nth(4)?);
        let source = plain(of.split(' ').nth(1)?);
        directory.starts_with(&point).then_some((point, source))
    };
    let holding = mounts.lines().filter_map(one).max_by_key(|(point, _)| point.len());
    holding.map_or_else(String::new, |(point, source)| format!("{source} at {point}"))
}

/// Returns a word of `/proc/self/mountinfo` without the escapes of its spaces and number signs.
fn plain(word: &str) -> String {
    word.replace("\\040", " ").replace("\\043", "#")
}

/// Returns the name of the interface with this address.
fn interface(own: IpAddr) -> Option<String> {
    let all = if_addrs::get_if_addrs().ok()?;
    all.into_iter().find(|of| of.ip() == own).map(|of| of.name)
}

/// Returns the address of this node at which other nodes reach it: of the interface that is named, otherwise of the first that is not
/// the loopback, IPv4 before IPv6; the loopback where there is nothing else.
///
/// # Errors
/// If there is no such interface.
pub fn address(interface: Option<&str>) -> Result<IpAddr, String> {
    let all = if_addrs::get_if_addrs()
        .map_err(|error| format!("cannot list the network interfaces: {error}"))?;
    let mut usable: Vec<_> = all.iter().filter(|of| !of.is_link_local()).collect();
    usable.sort_by_key(|of| (of.is_loopback(), of.ip().is_ipv6()));
    let found = match interface {
        Some(name) => usable.iter().find(|of| of.name == name),
        None => usable.first(),
    };
    found.map(|of| of.ip()).ok_or_else(|| {
        let names: std::collections::BTreeSet<&str> =
            usable.iter().map(|of| of.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let asked = interface.unwrap_or("any");
        format!("--interface {asked}: this node has {} with an address", names.join(", "))
    })
}

/// Returns the number of NVIDIA GPUs and their models.
fn gpus() -> String {
    let Ok(entries) = fs::read_dir("/proc/driver/nvidia/gpus") else { return String::new() };
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries.flatten() {
        let text = fs::read_to_string(entry.path().join("information")).unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("Model:")).unwrap_or("GPU");
        *kinds.entry(model.trim().to_owned()).or_default() += 1;
    }
    let kinds: Vec<String> =
        kinds.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    kinds.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_described_with_interface_file_system_and_free_space() {
        let facts = look("127.0.0.1".parse().unwrap(), Path::new("/"));
        assert!(facts.cores > 0.0 && facts.free.is_some() && !facts.boot.is_empty(), "{facts:?}");
        assert!(facts.named.contains_key("kernel") && facts.named["interface"].starts_with("lo"));
        let missing = look("127.0.0.1".parse().unwrap(), Path::new("/no/such/directory"));
        assert_eq!(missing.free, None);
    }

    #[test]
    fn the_mount_of_a_directory_is_the_innermost_one() {
        let mounts =
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw - nfs4 server:/export rw\n";
        assert_eq!(mount(Path::new("/proc/self"), mounts), "server:/export at /proc");
        assert_eq!(mount(Path::new("/"), mounts), "/dev/a at /");
        assert_eq!(mount(Path::new("/"), ""), "");
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused_with_those_that_are() {
        assert!(address(None).is_ok());
        let refused = address(Some("nothere0")).unwrap_err();
        assert!(refused.contains("--interface nothere0") && refused.contains("lo"), "{refused}");
    }
}
