//! Shared resources. Reports show names made from these types; no code reads a name back.

use forebay_scenario::{Faulty, FaultyLink, Scenario};

/// A shared resource, or all similar resources of the same owner: what it belongs to, and which part of its owner it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// What it belongs to.
    pub owner: Owner,
    /// Part of the owner.
    pub part: Part,
}

/// What a resource belongs to; numbers are indices into the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A storage. Each node has a storage of its own unless the storage is remote.
    Storage(usize),
    /// What serves a storage's files that nodes' page caches hold from the start, on each node.
    WarmFiles(usize),
    /// A job: each of its copies or processes has the resource for itself.
    Job(usize),
    /// Nodes: all nodes of the cluster or, beside groups, the nodes that are in no group.
    Node,
    /// Nodes of a group.
    Group(usize),
    /// Racks.
    Rack,
    /// Parameter servers on nodes of their own.
    Server,
}

/// Which part of its owner a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Cores.
    Cores,
    /// GPUs that several kernels share.
    Gpu,
    /// Memory bandwidth of a GPU.
    GpuMemory,
    /// Memory bandwidth of a node.
    MemoryBandwidth,
    /// Bandwidth of the page cache.
    PageCache,
    /// A NIC.
    Nic(Direction),
    /// A NIC that carries only storage data.
    StorageNic(Direction),
    /// A link between the GPUs of a node.
    Intra(IntraLink),
    /// A link between a node's memory and a GPU; what comes into the GPU is [`Direction::In`].
    Pcie(Direction),
    /// A link of a rack to the switch that connects all racks; what leaves the rack is [`Direction::Out`].
    Uplink(Direction),
    /// Operations per second.
    Operations,
    /// Bandwidth.
    Bandwidth,
    /// Bandwidth that a storage gives one node.
    Client,
    /// Bandwidth that a storage gives the writers of one node, where reads do not share it.
    ClientWrites,
    /// Bandwidth of a target of a parallel file system.
    Target,
    /// Requests per second that an object store serves.
    Requests,
    /// Bandwidth of an I/O queue.
    Queue,
    /// Slots of an I/O queue.
    QueueSlots,
    /// Arm of a disk.
    Arm,
    /// Measured throughput.
    Measured,
    /// Bandwidth of writes, where reads are not limited.
    WriteBandwidth,
    /// Lock of the interpreter (GIL).
    Gil,
    /// Quota of CPU time.
    CpuQuota,
}

/// Direction of a link, as its owner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Into the owner.
    In,
    /// Out of the owner.
    Out,
}

/// Links between the GPUs of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntraLink {
    /// The bus that all GPUs share, or the link out of a GPU.
    Out,
    /// The link into a GPU.
    In,
    /// From a switch of a PCIe tree to its root.
    Up,
    /// From the root of a PCIe tree to a switch.
    Down,
    /// The root of a PCIe tree.
    Root,
}

impl Resource {
    /// Returns a part of nodes.
    #[must_use]
    pub const fn node(part: Part) -> Resource {
        Resource { owner: Owner::Node, part }
    }

    /// Returns a part of parameter servers on nodes of their own.
    #[must_use]
    pub const fn server(part: Part) -> Resource {
        Resource { owner: Owner::Server, part }
    }

    /// Returns the links of racks in one direction.
    #[must_use]
    pub const fn uplink(direction: Direction) -> Resource {
        Resource { owner: Owner::Rack, part: Part::Uplink(direction) }
    }

    /// Returns a part of the storage with this index.
    #[must_use]
    pub const fn storage(index: usize, part: Part) -> Resource {
        Resource { owner: Owner::Storage(index), part }
    }

    /// Returns a part of the job with this index.
    #[must_use]
    pub const fn job(index: usize, part: Part) -> Resource {
        Resource { owner: Owner::Job(index), part }
    }

    /// Returns whether each node has the resource for itself, so that jobs on different nodes do not share it.
    #[must_use]
    pub fn is_in_nodes(self, scenario: &Scenario) -> bool {
        match self.owner {
            Owner::Storage(index) => !scenario.storage[index].path.is_remote(),
            Owner::WarmFiles(_) | Owner::Node | Owner::Group(_) => true,
            Owner::Job(_) | Owner::Rack | Owner::Server => false,
        }
    }

    /// Returns whether a fault of `what` makes the resource slower.
    #[must_use]
    pub fn is_slowed_by(self, what: Faulty) -> bool {
        // Parameter servers have NICs and cores too, which faults of nodes do not slow.
        let of_node = matches!(self.owner, Owner::Node | Owner::Group(_));
        match what {
            Faulty::Storage(index) => {
                let parts = [Part::Bandwidth, Part::Operations, Part::Target, Part::WriteBandwidth];
                self.owner == Owner::Storage(index) && parts.contains(&self.part)
            }
            Faulty::Link(FaultyLink::Nic) => {
                of_node && matches!(self.part, Part::Nic(_) | Part::StorageNic(_))
            }
            Faulty::Link(FaultyLink::Intra) => matches!(self.part, Part::Intra(_)),
            Faulty::Link(FaultyLink::Pcie) => matches!(self.part, Part::Pcie(_)),
            Faulty::Link(FaultyLink::Uplink) => matches!(self.part, Part::Uplink(_)),
            Faulty::Cores => of_node && self.part == Part::Cores,
            // Faults lengthen the kernels instead: a link with less capacity would not slow kernels that fill only a part of
            // the GPU.
            Faulty::Gpus => false,
        }
    }

    /// Returns the name that reports show.
    #[must_use]
    pub fn name(self, scenario: &Scenario) -> String {
        let part = self.part.name();
        match self.owner {
            Owner::Storage(index) => format!("{}.{part}", scenario.storage[index].name),
            Owner::WarmFiles(index) => {
                format!("{}.page-cache.{part}", scenario.storage[index].name)
            }
            Owner::Job(index) => format!("{}.{part}", scenario.jobs[index].name),
            Owner::Node => format!("node.{part}"),
            Owner::Group(index) => format!("{}.node.{part}", scenario.cluster.groups[index].name),
            Owner::Rack => format!("rack.{part}"),
            Owner::Server => format!("server.{part}"),
        }
    }
}

impl Part {
    /// Returns the last part of the names that reports show.
    fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Gpu => "gpu",
            Self::GpuMemory => "gpu.memory",
            Self::MemoryBandwidth => "memory-bandwidth",
            Self::PageCache => "page-cache",
            Self::Nic(Direction::In) => "nic",
            Self::Nic(Direction::Out) => "nic.out",
            Self::StorageNic(Direction::In) => "storage-nic",
            Self::StorageNic(Direction::Out) => "storage-nic.out",
            Self::Intra(IntraLink::Out) => "intra",
            Self::Intra(IntraLink::In) => "intra.in",
            Self::Intra(IntraLink::Up) => "intra.up",
            Self::Intra(IntraLink::Down) => "intra.down",
            Self::Intra(IntraLink::Root) => "intra.root",
            Self::Pcie(Direction::In) => "pcie",
            Self::Pcie(Direction::Out) => "pcie.out",
            Self::Uplink(Direction::Out) => "uplink",
            Self::Uplink(Direction::In) => "downlink",
            Self::Operations => "operations",
            Self::Bandwidth => "bandwidth",
            Self::Client => "client",
            Self::ClientWrites => "client_writes",
            Self::Target => "target",
            Self::Requests => "requests",
            Self::Queue => "queue",
            Self::QueueSlots => "queue-slots",
            Self::Arm => "arm",
            Self::Measured => "measured",
            Self::WriteBandwidth => "write_bandwidth",
            Self::Gil => "gil",
            Self::CpuQuota => "cpu-quota",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::scenario;

    #[test]
    fn resources_of_owners_with_the_same_name_stay_apart() {
        let mut scenario = scenario();
        scenario.storage[0].name = "node".into();
        scenario.jobs[0].name = "node".into();
        let storage = Resource::storage(0, Part::Operations);
        let (job, node) = (Resource::job(0, Part::CpuQuota), Resource::node(Part::Cores));
        let all = [storage, job, node];
        let names = all.map(|of| of.name(&scenario));
        assert_eq!(names, ["node.operations", "node.cpu-quota", "node.cores"]);
        let slowed = |what| all.map(|of| of.is_slowed_by(what));
        assert_eq!(slowed(Faulty::Storage(0)), [true, false, false]);
        assert_eq!(slowed(Faulty::Storage(1)), [false; 3]);
        assert_eq!(slowed(Faulty::Cores), [false, false, true]);
    }

    #[test]
    fn faults_of_links_slow_those_of_nodes_and_racks_and_no_server() {
        let links = [
            Resource::node(Part::Nic(Direction::Out)),
            Resource::node(Part::StorageNic(Direction::In)),
            Resource::node(Part::Intra(IntraLink::Root)),
            Resource::node(Part::Pcie(Direction::In)),
            Resource::uplink(Direction::In),
            Resource::server(Part::Nic(Direction::In)),
        ];
        let slowed = |link| links.map(|of| u8::from(of.is_slowed_by(Faulty::Link(link))));
        assert_eq!(slowed(FaultyLink::Nic), [1, 1, 0, 0, 0, 0]);
        assert_eq!(slowed(FaultyLink::Intra), [0, 0, 1, 0, 0, 0]);
        assert_eq!(slowed(FaultyLink::Pcie), [0, 0, 0, 1, 0, 0]);
        assert_eq!(slowed(FaultyLink::Uplink), [0, 0, 0, 0, 1, 0]);
    }
}
