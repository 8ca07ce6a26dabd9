//! A first recipe of a figure.

use super::{TemplateError, quoted};
use crate::metric;
use crate::plot::{Recipe, label_of};
use crate::scenario::{Axis, ScenarioFile, choose};

/// Answers from which a recipe is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlotAnswers {
    /// Path of the scenario, as written in the recipe. The scenario is swept, or run once if it has no `[sweep]`.
    pub scenario: String,
    /// Columns to draw, each in its own panel; if empty, `samples_per_second` and `stall` of a sweep, or `step_time` and
    /// `queue_occupancy` of a run over time.
    pub columns: Vec<String>,
    /// Swept key of the x axis; if not given, the last key of `[sweep]`.
    pub x: Option<String>,
    /// Swept key whose values each get a line; if not given, the other key of `[sweep]`.
    pub group: Option<String>,
    /// Title of the figure; if not given, it names the first column and the x axis.
    pub title: Option<String>,
}

impl PlotAnswers {
    /// Returns the columns of a sweep that can be drawn.
    #[must_use]
    pub fn columns() -> Vec<&'static str> {
        let drawn = metric::all().iter().filter(|of| of.is_swept());
        drawn.map(|of| of.column.as_ref()).collect()
    }

    /// Checks that a column can be drawn.
    ///
    /// # Errors
    /// If there is no such column. The message contains the most similar name.
    pub fn check_column(name: &str) -> Result<(), TemplateError> {
        let columns = PlotAnswers::columns();
        match columns.contains(&name) {
            true => Ok(()),
            false => Err(TemplateError(format!(
                "rows have no column `{name}`: {}",
                choose(name, &columns)
            ))),
        }
    }

    /// Returns the text of a recipe that draws `file`.
    ///
    /// # Errors
    /// If a column or a swept key is unknown, or `[sweep]` of the file is invalid.
    pub fn text(&self, file: &ScenarioFile) -> Result<String, TemplateError> {
        let axes = file.axes().map_err(|problems| TemplateError(problems.to_string()))?;
        self.columns.iter().try_for_each(|name| PlotAnswers::check_column(name))?;
        let text = match axes.is_empty() {
            true => self.over_time()?,
            false => self.swept(&axes, &job_names(file))?,
        };
        let text = super::aligned(&text);
        Recipe::parse("the new recipe", &text).map_err(|error| TemplateError(error.to_string()))?;
        Ok(text)
    }

    /// Returns the recipe that draws a sweep. With several `jobs`, each is a line, or only the first is drawn if another key is the
    /// group.
    fn swept(&self, axes: &[Axis], jobs: &[String]) -> Result<String, TemplateError> {
        let keys: Vec<&str> =
            axes.iter().flat_map(|axis| axis.keys.iter().map(String::as_str)).collect();
        let check = |what: &str, key: &Option<String>| match key {
            Some(key) if !keys.contains(&key.as_str()) => Err(TemplateError(format!(
                "{what} `{key}` is not swept by the scenario: {}",
                choose(key, &keys)
            ))),
            _ => Ok(()),
        };
        check("--x", &self.x)?;
        check("--group", &self.group)?;
        let last = keys.last().copied().unwrap_or_default();
        let x = self.x.as_deref().unwrap_or(last);
        let group = self.group.as_deref().or(keys.iter().copied().find(|key| *key != x));
        let by_job = jobs.len() > 1 && group.is_none();
        let one_job = jobs.first().filter(|_| jobs.len() > 1 && !by_job);
        let others: Vec<&&str> =
            keys.iter().filter(|key| **key != x && Some(**key) != group).collect();
        let first = |key: &str| {
            let of = |axis: &Axis| {
                let place = axis.keys.iter().position(|other| other == key)?;
                Some(axis.values.first()?.get(place)?.to_string())
            };
            axes.iter().find_map(of)
        };
        let job = one_job.map(|name| format!("job = {}", quoted(name)));
        let keys =
            others.iter().filter_map(|key| Some(format!("{} = {}", quoted(key), first(key)?)));
        let filter: Vec<String> = job.into_iter().chain(keys).collect();
        let filter = match filter.is_empty() {
            true => String::new(),
            false => format!(
                "filter = {{ {} }} # rows to draw: other keys are swept, too\n",
                filter.join(", ")
            ),
        };
        let group = if by_job { Some("job") } else { group };
        let line = group.map_or_else(String::new, |key| format!("group = {}\n", quoted(key)));
        Ok(self.recipe(x, &line, &filter, ""))
    }

    /// Returns the recipe that draws a run over time, for a scenario without `[sweep]`.
    fn over_time(&self) -> Result<String, TemplateError> {
        let known: Vec<&str> = metric::OVER_TIME.iter().map(|(name, _)| *name).collect();
        if self.x.is_some() || self.group.is_some() {
            let what = "the scenario has no [sweep], so that there is no key for --x and --group";
            return Err(TemplateError(format!(
                "{what}: leave them out, or add one such as\n\n  [sweep]\n  \"job.batch\" = [32, 64]\n"
            )));
        }
        let wrong = self.columns.iter().find(|name| !known.contains(&name.as_str()));
        if let Some(name) = wrong {
            let what = "the scenario has no [sweep], and rows over time have no column";
            return Err(TemplateError(format!("{what} `{name}`: {}", choose(name, &known))));
        }
        Ok(self.recipe(
            "time",
            "group = \"job\"\n",
            "",
            "series = true # run once, drawn over time\n",
        ))
    }

    fn recipe(&self, x: &str, group: &str, filter: &str, series: &str) -> String {
        let usual: &[&str] = if series.is_empty() {
            &["samples_per_second", "stall"]
        } else {
            &["step_time", "queue_occupancy"]
        };
        let given: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let columns = if given.is_empty() { usual } else { &given };
        let title = self.title.clone().unwrap_or_else(|| {
            format!("{} by {}", label_of(columns[0]), label_of(x).to_lowercase())
        });
        let panel = |column: &&str| {
            let meaning = metric::of_column(column).map_or("", |of| of.meaning.as_ref());
            format!("\n[[panel]]\ny = [{}] # {meaning}\n", quoted(column))
        };
        let panels: String = columns.iter().map(panel).collect();
        let band =
            if series.is_empty() { "# band = true # shade the 95 % intervals\n" } else { "" };
        format!(
            "# How {} {} change with `{x}`?\n\
             #\n\
             # Written by `forebay new plot`. Columns are those of `forebay sweep --columns all`, and swept keys; `forebay reference`\n\
             # explains them. Drawn by: forebay plot FILE\n\
             title = {}\n\
             x = {}\n\
             {group}{filter}\
             # x_scale = \"log\"\n\
             {band}\
             \n\
             [data] # looked up beside this file\n\
             scenario = {}\n\
             {series}\
             # set = [\"run.replications=5\"] # changes to the scenario\n\
             {panels}",
            if columns.len() == 1 { "does" } else { "do" },
            columns.iter().map(|of| format!("`{of}`")).collect::<Vec<_>>().join(" and "),
            quoted(&title),
            quoted(x),
            quoted(&self.scenario),
        )
    }
}

/// Returns the names of the file's jobs; none if the file is invalid.
fn job_names(file: &ScenarioFile) -> Vec<String> {
    let jobs = file.resolve(&[]).map(|scenario| scenario.jobs).unwrap_or_default();
    jobs.into_iter().map(|job| job.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> PlotAnswers {
        PlotAnswers {
            scenario: "s.toml".to_owned(),
            columns: Vec::new(),
            x: None,
            group: None,
            title: None,
        }
    }

    fn file(sweep: &str) -> ScenarioFile {
        let text = crate::template::ScenarioAnswers::default().text().expect("a scenario");
        let text = text.split("\n[sweep]").next().expect("the rest").to_owned() + "\n" + sweep;
        ScenarioFile::parse("s.toml", text).expect("a file")
    }

    #[test]
    fn swept_keys_become_the_x_axis_the_lines_and_the_filter_of_a_plot() {
        let file = file(
            "[sweep]\n\"job.batch\" = [1, 2]\n\"run.seed\" = [1, 2]\n\"job.loader.pytorch.workers\" = [4, 8]\n",
        );
        let text = answers().text(&file).expect("a recipe");
        assert!(
            text.contains("x = \"job.loader.pytorch.workers\"\ngroup = \"job.batch\"\n"),
            "{text}"
        );
        assert!(text.contains("filter = { \"run.seed\" = 1 }"), "{text}");
        let head =
            "# How do `samples_per_second` and `stall` change with `job.loader.pytorch.workers`?\n";
        assert!(text.starts_with(head), "{text}");
    }

    #[test]
    fn a_sweep_of_several_jobs_has_a_line_for_each_job_or_draws_one() {
        let of = |sweep: &str| {
            let text = file(sweep).text().replace("nodes = 1\n", "nodes = 2\n");
            let (before, jobs) = text.split_once("[[job]]").expect("a job");
            let (job, sweep) = jobs.split_once("[sweep]").expect("a sweep");
            let second = job.replacen("name = \"resnet50\"", "name = \"other\"", 1);
            let first = job.replace("nodes = 2\n", "nodes = 1\n");
            let second = second.replace("nodes = 2\n", "nodes = 1\n");
            let text = format!("{before}[[job]]{first}[[job]]{second}[sweep]{sweep}");
            answers().text(&ScenarioFile::parse("s.toml", text).expect("a file")).expect("a recipe")
        };
        let one = of("[sweep]\n\"job.batch\" = [1, 2]\n");
        assert!(one.contains("group = \"job\"\n"), "{one}");
        let two = of("[sweep]\n\"job.batch\" = [1, 2]\n\"run.seed\" = [1, 2]\n");
        assert!(two.contains("group = \"job.batch\"\n"), "{two}");
        assert!(two.contains("filter = { job = \"resnet50\" }"), "{two}");
    }

    #[test]
    fn plots_of_a_scenario_without_sweep_have_time_on_the_x_axis() {
        let text = answers().text(&file("")).expect("a recipe");
        assert!(text.contains("series = true") && text.contains("x = \"time\""), "{text}");
        let wrong = PlotAnswers { columns: vec!["makespan".to_owned()], ..answers() };
        assert!(wrong.text(&file("")).expect_err("refused").to_string().contains("no [sweep]"));
    }

    #[test]
    fn unknown_plot_columns_and_keys_get_a_suggestion() {
        let swept = file("[sweep]\n\"job.batch\" = [1, 2]\n");
        let column = PlotAnswers { columns: vec!["stal".to_owned()], ..answers() };
        let error = column.text(&swept).expect_err("refused").to_string();
        assert!(error.contains("did you mean `stall`?"), "{error}");
        let key = PlotAnswers { x: Some("job.bach".to_owned()), ..answers() };
        let error = key.text(&swept).expect_err("refused").to_string();
        assert!(error.contains("did you mean `job.batch`?"), "{error}");
        assert!(!PlotAnswers::columns().contains(&"largest_stall"), "text is not drawn");
    }
}
