//! Storage with measured throughput, by size and number of requests.

mod file;

use super::settings::Kind;
use super::{Access, Location, RequestPath, Service};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Count, Positive};
use crate::role::Role;
use forebay_model::law::Throughput;
use forebay_model::units::{Bandwidth, Size};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Maximum number of sizes, and of numbers of requests, in a table.
const MOST: usize = 1000;

/// Measured throughput of a storage, given by `sizes`, `requests` and `throughput`, by a `file` with these values,
/// or by a table in the scenario's profile (`profile`). Between entries the logarithm of the throughput is linear in
/// the logarithms of size and number of requests.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    /// Whether all nodes share the storage, behind their NICs (default: false, each has its own).
    #[schemars(extend("x-role" = Role::Identity))]
    remote: Field<bool>,
    /// Sizes of requests, ascending.
    #[schemars(extend("x-role" = Role::Identity))]
    sizes: Field<List<Positive<Size>>>,
    /// Numbers of requests in progress at once, ascending.
    #[schemars(extend("x-role" = Role::Identity))]
    requests: Field<List<Count<1, 1_000_000>>>,
    /// Throughput of all requests together: a row for each of `sizes`, with a value for each of `requests`.
    #[schemars(extend("x-role" = Role::Limit))]
    throughput: Field<List<List<Positive<Bandwidth>>>>,
    /// File with a size, a number of requests and a throughput on each line, looked up beside the
    /// scenario: numbers in SI units (`65536,4,2e8`) or quantities (`64 KiB,4,200 MB/s`).
    #[schemars(extend("x-role" = Role::Identity))]
    file: Field<String>,
    /// Kind of access. The scenario's profile gives the throughput that was measured with this kind of access and
    /// with the layout of the data on this storage. Only "cold" reads go through the page cache. The uncertainty of these measurements is unknown: each run of
    /// `--uncertainty` uses them unchanged.
    #[schemars(extend("x-role" = Role::Identity))]
    profile: Field<Access>,
}

/// A table of throughput: sizes [B], numbers of requests, and throughputs [B/s] ordered by size, then by number.
struct Table {
    sizes: Vec<f64>,
    numbers: Vec<f64>,
    rates: Vec<f64>,
}

impl Kind for Measured {
    fn name(&self) -> &'static str {
        "measured"
    }

    fn path(&self, check: Check<'_>, at: NodeId, layout: &str) -> Option<RequestPath> {
        let choices = [
            ("throughput", self.throughput.at),
            ("file", self.file.at),
            ("profile", self.profile.at),
        ];
        let remedy = "write `file = \"table.csv\"`, `profile = \"direct\"`, or `sizes`, `requests` and \
                      `throughput`";
        let table = match check.one_of(at, &choices, remedy)? {
            0 => self.inline(check, at)?,
            1 => self.read_file(check)?,
            _ => self.of_profile(check, layout)?,
        };
        let Table { sizes, numbers, rates } = table;
        let table = Arc::new(Throughput::new(&sizes, &numbers, &rates));
        let location = match self.remote.get() {
            Some(true) => Location::Shared,
            _ => Location::Node,
        };
        let access = match self.profile.get() {
            None | Some(Access::Cold) => Access::Cold,
            // What was measured is the time of every read, whatever the page cache holds.
            Some(Access::Direct | Access::Warm | Access::Emulated) => Access::Direct,
        };
        Some(RequestPath {
            service: Service::Measured(table),
            ..RequestPath::unlimited(location, access)
        })
    }
}

impl Measured {
    /// Reports a problem for each of `sizes` and `requests` that is set although the file or the profile gives it.
    fn said_elsewhere(&self, check: Check<'_>, what: &str) {
        for at in [self.sizes.at, self.requests.at].into_iter().flatten() {
            check.wrong(at, what, "keep one of them");
        }
    }

    fn of_profile(&self, check: Check<'_>, layout: &str) -> Option<Table> {
        self.said_elsewhere(check, "`profile` already gives these numbers");
        let (at, access) = self.profile.given()?;
        let Some(profile) = check.profile else {
            let remedy =
                "write `profile = \"machine.toml\"` first, as `forebay calibrate` wrote it";
            check.wrong(at, "the scenario names no profile", remedy);
            return None;
        };
        let Some(found) = profile.throughput_of(access.measured(), layout) else {
            let what = format!("the profile has no throughput of {} reads", access.measured());
            let remedy = "write an access that `profile show` lists, or fit its samples again: \
                          `profile fit`";
            check.wrong(at, what, remedy);
            return None;
        };
        let (sizes, numbers) = (found.sizes.clone(), found.readers.clone());
        Some(Table { sizes, numbers, rates: found.rates.concat() })
    }

    fn read_file(&self, check: Check<'_>) -> Option<Table> {
        self.said_elsewhere(check, "`file` already gives these numbers");
        let (at, name) = self.file.given()?;
        file::read(check, at, name)
    }

    fn inline(&self, check: Check<'_>, at: NodeId) -> Option<Table> {
        let remedy = "write `sizes = [\"4 KiB\", \"1 MiB\"]`";
        check.required(at, &self.sizes, "sizes", remedy);
        check.required(at, &self.requests, "requests", "write `requests = [1, 4, 16]`");
        let (sizes_at, sizes) = self.sizes.given()?;
        let (requests_at, requests) = self.requests.given()?;
        let sizes: Vec<f64> = values(sizes, |size| size.0)?;
        #[expect(clippy::cast_precision_loss, reason = "at most a million")]
        let numbers: Vec<f64> = values(requests, |number| number.0 as f64)?;
        let ascend = ascending(check, sizes_at, &sizes) & ascending(check, requests_at, &numbers);
        let (_, rows) = self.throughput.given()?;
        let rates = self.rates(check, rows, sizes.len(), numbers.len())?;
        ascend.then_some(Table { sizes, numbers, rates })
    }

    /// Returns the throughputs row by row; reports a problem and returns `None` if there is not exactly one for each
    /// size and number of requests.
    fn rates(
        &self,
        check: Check<'_>,
        rows: &List<List<Positive<Bandwidth>>>,
        sizes: usize,
        numbers: usize,
    ) -> Option<Vec<f64>> {
        let at = self.throughput.at?;
        if rows.0.len() != sizes {
            let what = format!("there are {} rows for {sizes} sizes", rows.0.len());
            check.wrong(at, what, "write a row for each of `sizes`");
            return None;
        }
        let mut rates = Vec::new();
        for row in &rows.0 {
            let (at, row) = row.given()?;
            if row.0.len() != numbers {
                let what = format!(
                    "the row has {} throughputs for {numbers} numbers of requests",
                    row.0.len()
                );
                check.wrong(at, what, "write one throughput for each number in `requests`");
                return None;
            }
            rates.extend(values(row, |rate| rate.0)?);
        }
        Some(rates)
    }
}

/// Returns the elements of a list as numbers; `None` if an element is invalid.
fn values<T>(list: &List<T>, of: impl Fn(&T) -> f64) -> Option<Vec<f64>> {
    list.0.iter().map(|element| element.get().map(&of)).collect()
}

/// Checks that there is at least one value, that there are not too many, and that each is larger than the one
/// before; reports a problem and returns false otherwise.
fn ascending(check: Check<'_>, at: NodeId, values: &[f64]) -> bool {
    let what = if values.is_empty() {
        "the list is empty".to_owned()
    } else if values.len() > MOST {
        format!("the list has {} numbers, more than {MOST}", values.len())
    } else if let Some(pair) = values.windows(2).find(|pair| pair[0] >= pair[1]) {
        format!("{} is not larger than {} before it", pair[1], pair[0])
    } else {
        return true;
    };
    check.wrong(at, what, format!("write 1 to {MOST} numbers in ascending order"));
    false
}
