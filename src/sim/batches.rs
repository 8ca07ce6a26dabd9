//! Batches from a loader's queue to the devices that want them.

use crate::account::{NOBODY, Segment, blame};
use crate::engine::Time;

use super::device::State;
use super::event::Clock;
use super::index::{DeviceId, Ids, LoaderId, WorkerId};
use super::workers::Item;
use super::world::World;

impl World<'_> {
    pub(super) fn want_batch(&mut self, clock: &mut Clock, d: DeviceId) {
        let l = self.devices[d].loader;
        if self.loaders[l].requests.is_some() {
            self.want_request(clock, l);
        }
        let device = &mut self.devices[d];
        let loader = &mut self.loaders[l];
        // What sleepers will find is theirs.
        let promised = loader.polling.as_ref().map_or(0, |polling| polling.promised());
        if loader.waiters.len() == promised && loader.queue.has_batches(promised as u64 + 1) {
            loader.queue.served_at_once();
            self.take_batch(clock, d);
            self.unblock_last(clock, l);
            return;
        }
        device.state = State::Starving;
        device.since = clock.now;
        if loader.waiters.is_empty() && loader.tells {
            // Timelines that stay short find their memory near.
            let workers = loader.workers;
            self.workers[workers]
                .iter_mut()
                .for_each(|worker| worker.timeline.begin_wait(clock.now));
        }
        loader.queue.begin_wait(clock.now);
        loader.waiters.push_back(d);
        self.trace_device(clock.now, d, "starving");
    }

    pub(super) fn take_batch(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &self.devices[d];
        let (l, job) = (device.loader, &mut self.jobs[device.job]);
        let loader = &mut self.loaders[l];
        let missing = job.batch - loader.queue.batch();
        let taken = loader.queue.take(clock.now);
        let new = match &job.recovery {
            Some(recovery) => {
                let dequeued = loader.queue.totals(clock.now).dequeued;
                recovery.fresh(l - job.loaders.start, dequeued, taken)
            }
            None => taken,
        };
        let fresh = loader.polling.as_mut().map_or(new, |polling| polling.fresh(new));
        let device = &mut self.devices[d];
        if loader.followed
            && let Some(lineage) = &mut loader.lineage
        {
            lineage.take(device.model, device.next, taken);
        }
        match &mut job.servers {
            Some(servers) => servers.add_fresh(device.model, device.next, fresh),
            None => job.add_fresh(device.next, fresh),
        }
        device.missing = missing;
        if job.recovery.is_some() && job.takes_ahead() {
            let saved = job.saved_steps(device.model);
            device.ahead.retain(|(step, ..)| *step >= saved);
            device.ahead.push((device.next, taken, fresh));
        }
        self.hold_input(d);
        self.trace_level(clock.now, l);
        if self.loaders[l].requests.is_some() {
            self.replace_request(clock, l);
        }
        match self.loaders[l].load {
            None => self.begin_on_batch(clock, d),
            Some(_) => self.use_batch(clock, d),
        }
    }

    /// Worker `w` has made `item` for the trainer of loader `l`.
    #[inline(always)]
    pub(super) fn deliver(&mut self, clock: &mut Clock, l: LoaderId, w: WorkerId, item: Item) {
        let Item { first, samples, sequence, .. } = item;
        if self.loaders[l].requests.is_none() {
            return self.enqueue(clock, l, w, (first, samples.into()));
        }
        self.answer(clock, l, w, sequence);
    }

    /// Worker `w` has made what was requested under number `sequence`.
    #[inline(never)]
    fn answer(&mut self, clock: &mut Clock, l: LoaderId, w: WorkerId, sequence: u64) {
        if let Some(requests) = &mut self.loaders[l].requests {
            requests.finish(clock.now, sequence);
        }
        while let Some(requests) = &mut self.loaders[l].requests
            && let Some(batch) = requests.hand_out()
        {
            self.enqueue(clock, l, w, batch);
        }
    }

    /// Worker `w` puts samples, so many from turn `first` on, into the queue of loader `l`.
    #[inline(always)]
    fn enqueue(
        &mut self,
        clock: &mut Clock,
        l: LoaderId,
        w: WorkerId,
        (first, samples): (u64, u64),
    ) {
        let loader = &mut self.loaders[l];
        if loader.followed
            && let Some(lineage) = &mut loader.lineage
        {
            lineage.put(first, samples, &loader.source);
        }
        loader.queue.put(clock.now, samples);
        loader.in_progress -= samples;
        let served = loader.queue.has_batch() && !loader.waiters.is_empty();
        if self.recorder.is_some() {
            self.trace_level(clock.now, l);
        }
        if served {
            match self.loaders[l].polling {
                None => self.serve(clock, l, w),
                Some(_) => self.promise(clock, l, w),
            }
        }
    }

    /// Worker `w` has put in what the devices waited for that can be served now.
    fn serve(&mut self, clock: &mut Clock, l: LoaderId, w: WorkerId) {
        while let Some(&d) = self.loaders[l].waiters.front()
            && self.loaders[l].queue.has_batch()
        {
            self.loaders[l].waiters.pop_front();
            self.end_starving(clock.now, d, w, None);
            self.take_batch(clock, d);
        }
        self.unblock_last(clock, l);
    }

    pub(super) fn unblock_last(&mut self, clock: &mut Clock, l: LoaderId) {
        let last = self.loaders[l].stages.end - 1;
        self.unblock(clock, last, WorkerId::new(NOBODY));
    }

    /// Worker `w` has put in what device `d` starved for, which then `slept` perhaps.
    pub(super) fn end_starving(
        &mut self,
        now: Time,
        d: DeviceId,
        w: WorkerId,
        slept: Option<Segment>,
    ) {
        let device = &mut self.devices[d];
        let loader = &mut self.loaders[device.loader];
        loader.queue.end_wait(now);
        let (since, step, j) = (device.since, device.next, device.job);
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        segments.extend(slept);
        let came = slept.map_or(now, |slept| slept.start);
        blame(|w| &self.workers[WorkerId::new(w)].timeline, w.number(), since, came, &mut segments);
        segments.iter().rev().for_each(|segment| self.jobs[j].steps.add_stall(*segment));
        self.trace_causes(d, &segments);
        if self.jobs[j].devices.len() > 1 {
            let chain = Ids::new(d, d + self.jobs[j].stage_times.len() as u32);
            let oldest = chain.iter().map(|d| self.devices[d].since).min().unwrap_or(now);
            let (waits, period) = (&mut self.devices[d].waits, self.jobs[j].period);
            // Those of the exchange before may still be asked for.
            let known = |of: u64| of / period + 1 >= step / period;
            let loose = self.jobs[j].is_loose();
            waits.retain(|(of, wait)| wait.end > oldest || loose && known(*of));
            waits.extend(segments.iter().rev().map(|segment| (step, *segment)));
        }
        self.segments = segments;
    }

    fn trace_level(&mut self, now: Time, l: LoaderId) {
        let Some(recorder) = &mut self.recorder else { return };
        let loader = &self.loaders[l];
        if let Some(track) = loader.level_track {
            recorder.count(track, now, loader.queue.level() as f64);
        }
    }
}
