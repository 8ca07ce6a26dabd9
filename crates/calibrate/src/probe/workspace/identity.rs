//! Which process on which machine made a workspace.

use std::fs;
use std::io::ErrorKind;

/// Which process on which machine made a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) process: u32,
    /// Boot of the machine, by its `boot_id`.
    pub(super) boot: String,
    /// The machine, the same in all its boots; a hash, so that its name is not disclosed.
    pub(super) machine: String,
    /// PID namespace in which the number of the process is valid: containers have PID namespaces of their own.
    pub(super) numbers: String,
}

/// How the process that made a workspace is related to this process: whether this process can see the other
/// process's locks and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    /// The same PID namespace: we see its locks and its number.
    Twin,
    /// The same boot, but another container: we see its locks, but not its number.
    SameKernel,
    /// An earlier boot of this machine: the process is dead.
    EarlierBoot,
    /// Another machine: we may not even see its locks.
    Stranger,
}

impl Identity {
    pub(super) fn here() -> Identity {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let (id, name) = (read("/etc/machine-id"), read("/proc/sys/kernel/hostname"));
        // Nodes that start from one image may have the same machine ID; only the host name tells them apart.
        let unknown = id.is_empty() || name.is_empty() || name.starts_with("localhost");
        let machine =
            if unknown { String::new() } else { format!("{:016x}", fingerprint(&(id + &name))) };
        let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let numbers = numbers.to_string_lossy();
        Identity {
            process: std::process::id(),
            boot: read("/proc/sys/kernel/random/boot_id"),
            machine,
            numbers: numbers.chars().filter(char::is_ascii_digit).collect(),
        }
    }

    /// Formats the line in a workspace's marker file.
    pub(super) fn line(&self) -> String {
        let or_none = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
        let [boot, machine, numbers] =
            [&self.boot, &self.machine, &self.numbers].map(|of| or_none(of));
        format!("{} {boot} {machine} {numbers}", self.process)
    }

    /// Parses the line in a workspace's marker file; `None` if the line does not begin with the number of a
    /// process.
    pub(super) fn parse(line: &str) -> Option<Identity> {
        let mut fields = line.split_whitespace();
        let process = fields.next()?.parse().ok()?;
        // Markers of earlier versions end after the boot.
        let mut field = || fields.next().unwrap_or("-").to_owned();
        Some(Identity { process, boot: field(), machine: field(), numbers: field() })
    }

    /// Returns the part of a workspace's name that no other living process on any machine has.
    pub(super) fn tag(&self) -> String {
        format!("{}-{:08x}", self.process, self.place() as u32)
    }

    /// Returns a hash of the PID namespace, boot and machine in which the number of the process is valid.
    pub(super) fn place(&self) -> u64 {
        fingerprint(&format!("{} {} {}", self.boot, self.machine, self.numbers))
    }

    pub(super) fn seen_from(&self, here: &Identity) -> Kin {
        let same = |own: &str, other: &str| own == other && own != "-" && !own.is_empty();
        match (same(&self.boot, &here.boot), same(&self.machine, &here.machine)) {
            (true, _) if same(&self.numbers, &here.numbers) => Kin::Twin,
            (true, _) => Kin::SameKernel,
            (false, true) => Kin::EarlierBoot,
            (false, false) => Kin::Stranger,
        }
    }

    /// Returns whether a process with this number exists.
    pub(super) fn runs(&self) -> bool {
        let found = fs::metadata(format!("/proc/{}", self.process));
        !found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// Returns whether `tag`, made by [`Identity::tag`], is that of a dead process in our own PID namespace.
    pub(super) fn is_dead_twin(&self, tag: &str) -> bool {
        let mut parts = tag.split('-');
        let process = parts.next().and_then(|number| number.parse().ok());
        let of = |process| Identity { process, ..self.clone() };
        let twin = process.map(of).filter(|twin| tag.starts_with(&twin.tag()));
        twin.is_some_and(|twin| !twin.runs())
    }
}

/// Returns the FNV-1a hash of a text. It is the same in every version of the program, which the standard
/// library's hash is not.
fn fingerprint(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
