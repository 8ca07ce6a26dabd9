//! Shards: equal parts of a sweep, which tasks of a batch system make.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::StepBy;
use std::ops::Range;

/// Largest number of shards.
const MOST_SHARDS: usize = 10_000;

/// One of several equal parts of a sweep. Each has every `count`-th point, so that points that take long, which are neighbours in
/// most grids, are spread over the shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(usize, usize)", into = "(usize, usize)")]
pub struct Shard {
    number: usize,
    count: usize,
}

impl Shard {
    /// The only shard of an undivided sweep.
    pub const WHOLE: Shard = Shard { number: 1, count: 1 };

    /// Returns shard `number`, from 1, of `count`; `None` if there is none.
    pub fn new(number: usize, count: usize) -> Option<Shard> {
        let known = (1..=MOST_SHARDS).contains(&count) && (1..=count).contains(&number);
        known.then_some(Shard { number, count })
    }

    /// Reads a shard from `3/16`, `auto` or `auto/16`. `variable` returns the value of an environment variable; with `auto`, those of
    /// batch systems say which task this is.
    ///
    /// # Errors
    /// Returns a message if the text is none of these, or if the variables do not say enough.
    pub fn read(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard, String> {
        let written = text.split_once('/').map_or((text, None), |(of, all)| (of, Some(all)));
        let number = |text: &str| text.trim().parse::<usize>().ok();
        match written {
            ("auto", None) => Task::find(variable)?.of_array(),
            ("auto", Some(all)) => {
                let all = number(all).filter(|all| (1..=MOST_SHARDS).contains(all));
                let all = all.ok_or_else(|| wrong(text))?;
                let task = Task::find(variable)?.index;
                // Tasks are numbered from 0 or from 1: both give each shard once.
                let number = if task.is_multiple_of(all) { all } else { task % all };
                Ok(Shard { number, count: all })
            }
            (of, Some(all)) => {
                let shard = number(of).zip(number(all));
                shard.and_then(|(of, all)| Shard::new(of, all)).ok_or_else(|| wrong(text))
            }
            (_, None) => Err(wrong(text)),
        }
    }

    /// Returns the number of shards.
    pub fn count(self) -> usize {
        self.count
    }

    /// Returns which of the shards this is, from 1.
    pub fn number(self) -> usize {
        self.number
    }

    /// Returns the number of this shard's points in a grid of `all` points.
    pub fn len(self, all: usize) -> usize {
        self.points(all).len()
    }

    /// Returns the indices of this shard's points in a grid of `all` points.
    pub fn points(self, all: usize) -> StepBy<Range<usize>> {
        (self.number - 1..all.max(self.number - 1)).step_by(self.count)
    }

    /// Returns the position of the point `index` among the shards: that of the shard that has it, from 0.
    pub fn of_point(index: usize, count: usize) -> usize {
        index % count
    }

    /// Returns the name of the file with this shard's rows.
    pub fn file_name(self) -> String {
        let digits = self.count.to_string().len();
        format!("shard-{:0digits$}-of-{}.rows", self.number, self.count)
    }
}

impl TryFrom<(usize, usize)> for Shard {
    type Error = String;

    fn try_from((number, count): (usize, usize)) -> Result<Shard, String> {
        Shard::new(number, count).ok_or_else(|| wrong(&format!("{number}/{count}")))
    }
}

impl From<Shard> for (usize, usize) {
    fn from(shard: Shard) -> (usize, usize) {
        (shard.number, shard.count)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

fn wrong(text: &str) -> String {
    format!(
        "`{text}` is no shard: write `3/16` for the third of 16, numbered from 1 (at most {MOST_SHARDS}), `auto`, or `auto/16`"
    )
}

/// Variables in which a batch system tells a task of an array what it is.
struct System {
    index: &'static str,
    /// Least and largest index of the array, and the step from one to the next.
    ends: [&'static str; 3],
    /// Number of tasks.
    count: &'static str,
}

/// Slurm, PBS, LSF and Kubernetes.
const SYSTEMS: [System; 4] = [
    System {
        index: "SLURM_ARRAY_TASK_ID",
        ends: ["SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP"],
        count: "SLURM_ARRAY_TASK_COUNT",
    },
    System { index: "PBS_ARRAY_INDEX", ends: [""; 3], count: "" },
    System {
        index: "LSB_JOBINDEX",
        ends: ["", "LSB_JOBINDEX_END", "LSB_JOBINDEX_STEP"],
        count: "",
    },
    System { index: "JOB_COMPLETION_INDEX", ends: [""; 3], count: "" },
];

/// A task of an array job.
struct Task {
    /// Variable that has the index.
    variable: &'static str,
    index: usize,
    least: Option<usize>,
    most: Option<usize>,
    step: usize,
    count: Option<usize>,
}

impl Task {
    fn find(variable: &dyn Fn(&str) -> Option<String>) -> Result<Task, String> {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse().ok());
        for system in &SYSTEMS {
            // Outside arrays, LSF sets its variable to 0.
            let outside = |index: usize| system.index == "LSB_JOBINDEX" && index == 0;
            let Some(index) = number(system.index).filter(|index| !outside(*index)) else {
                continue;
            };
            let [least, most, step] = system.ends.map(number);
            return Ok(Task {
                variable: system.index,
                index,
                least: least.or(most.map(|_| 1)),
                most,
                step: step.unwrap_or(1).max(1),
                count: number(system.count),
            });
        }
        let names = SYSTEMS.each_ref().map(|system| system.index).join(", ");
        Err(format!("this is no task of an array: none of {names} is set; write `--shard 3/16`"))
    }

    /// Returns the shard of this task in an array whose ends are known and which has no gaps.
    fn of_array(&self) -> Result<Shard, String> {
        let variable = self.variable;
        let (Some(least), Some(most)) = (self.least, self.most) else {
            return Err(format!(
                "{variable} does not say how many tasks there are: write `--shard auto/16` with their number"
            ));
        };
        let tasks = (most.saturating_sub(least) / self.step).saturating_add(1);
        let place = (self.index.saturating_sub(least) / self.step).saturating_add(1);
        let whole = self.count.is_none_or(|count| count == tasks);
        match Shard::new(place, tasks).filter(|_| whole && self.index >= least) {
            Some(shard) => Ok(shard),
            None => Err(format!(
                "the array of {variable} has gaps, so that its tasks are not numbered one after the other: write `--shard auto/16` with the number of shards"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let variable = |name: &str| {
            variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned())
        };
        Shard::read(text, &variable).map(|shard| shard.to_string())
    }

    #[test]
    fn shards_have_every_point_once_and_differ_by_at_most_one_point() {
        for (count, all) in [(1, 10), (3, 10), (7, 2_000), (16, 5), (4, 0)] {
            let shards = (1..=count).map(|number| Shard::new(number, count).expect("a shard"));
            let points: Vec<Vec<usize>> = shards.map(|of| of.points(all).collect()).collect();
            let seen: BTreeSet<usize> = points.iter().flatten().copied().collect();
            assert_eq!(seen, (0..all).collect(), "{count} shards of {all} points");
            let lengths = points.iter().map(Vec::len);
            assert_eq!(lengths.clone().sum::<usize>(), all);
            assert!(lengths.clone().max() <= lengths.min().map(|least| least + 1));
            for (place, of) in points.iter().enumerate() {
                assert!(of.iter().all(|index| Shard::of_point(*index, count) == place));
            }
        }
    }

    #[test]
    fn tasks_of_batch_systems_know_their_shard() {
        let slurm = |index, least, most, step, count| {
            read(
                "auto",
                &[
                    ("SLURM_ARRAY_TASK_ID", index),
                    ("SLURM_ARRAY_TASK_MIN", least),
                    ("SLURM_ARRAY_TASK_MAX", most),
                    ("SLURM_ARRAY_TASK_STEP", step),
                    ("SLURM_ARRAY_TASK_COUNT", count),
                ],
            )
        };
        assert_eq!(slurm("0", "0", "9", "1", "10"), Ok("1/10".into()));
        assert_eq!(slurm("7", "1", "10", "3", "4"), Ok("3/4".into()));
        // Only tasks 3 and 7 are run again: which of how many shards they are is not known.
        assert!(slurm("7", "3", "7", "1", "2").is_err_and(|why| why.contains("auto/16")));
        let lsf = [("LSB_JOBINDEX", "5"), ("LSB_JOBINDEX_END", "20"), ("LSB_JOBINDEX_STEP", "1")];
        assert_eq!(read("auto", &lsf), Ok("5/20".into()));
        assert!(read("auto", &[("LSB_JOBINDEX", "0")]).is_err_and(|why| why.contains("no task")));
        let pbs = [("PBS_ARRAY_INDEX", "2")];
        assert!(read("auto", &pbs).is_err_and(|why| why.contains("how many tasks")));
        assert_eq!(read("auto/4", &pbs), Ok("2/4".into()));
        let kubernetes = |index| read("auto/4", &[("JOB_COMPLETION_INDEX", index)]);
        let all = ["0", "1", "2", "3"].map(|index| kubernetes(index).expect("a shard"));
        assert_eq!(all, ["4/4", "1/4", "2/4", "3/4"]);
        // Without being asked, no variable is read.
        assert_eq!(read("3/16", &pbs), Ok("3/16".into()));
    }

    #[test]
    fn texts_that_are_no_shards_are_refused() {
        for text in
            ["", "3", "0/4", "5/4", "1/0", "a/4", "1/4/2", "-1/4", "auto/", "auto/0", "1/10001"]
        {
            let variables = [("SLURM_ARRAY_TASK_ID", "1")];
            assert!(read(text, &variables).is_err_and(|why| why.contains("is no shard")), "{text}");
        }
    }
}
