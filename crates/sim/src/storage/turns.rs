//! A storage that serves requests in order of arrival: the bytes of a few are transferred at once, and others wait for their turn.

use std::collections::VecDeque;

use forebay_engine::fluid::GroupId;

use crate::env::{ActivityId, Env};

/// A request for bytes that a storage serves in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) activity: ActivityId,
    /// Route of the bytes.
    pub(crate) group: GroupId,
    pub(crate) bytes: f64,
}

/// The requests at a storage that serves them in order of arrival.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Number of requests that are served at once.
    at_once: usize,
    /// Activities whose bytes are being transferred.
    served: Vec<ActivityId>,
    /// Requests that wait, in order of arrival.
    waiting: VecDeque<Turn>,
}

impl Turns {
    /// Returns a storage without requests that serves `at_once` of them at once.
    pub(crate) fn new(at_once: u32) -> Turns {
        Turns { at_once: at_once as usize, served: Vec::new(), waiting: VecDeque::new() }
    }

    /// Adds a request; its transfer begins now or when it is its turn.
    pub(crate) fn ask(&mut self, env: &mut Env, turn: Turn) {
        self.waiting.push_back(turn);
        self.serve(env);
    }

    /// Ends the turn of `activity`, whose bytes have been transferred.
    pub(crate) fn end(&mut self, env: &mut Env, activity: ActivityId) {
        if let Some(place) = self.served.iter().position(|of| *of == activity) {
            self.served.swap_remove(place);
        }
        self.serve(env);
    }

    /// Removes the requests of each activity for which `is` returns true, and whose transfers have been cancelled.
    pub(crate) fn forget(&mut self, env: &mut Env, is: impl Fn(&ActivityId) -> bool) {
        self.served.retain(|activity| !is(activity));
        self.waiting.retain(|turn| !is(&turn.activity));
        self.serve(env);
    }

    /// Begins the transfers of the requests whose turn it is.
    fn serve(&mut self, env: &mut Env) {
        while self.served.len() < self.at_once
            && let Some(Turn { activity, group, bytes }) = self.waiting.pop_front()
        {
            self.served.push(activity);
            env.network.start(env.now, group, bytes, activity);
        }
    }
}
