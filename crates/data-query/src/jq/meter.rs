//! Measures a program while it runs: time, stack and the sizes of its values.

use std::cell::Cell;

use jaq_core::{DataT, Lut, data::HasLut};
use jaq_json::{Num, Val};

use crate::{
    QueryLimits,
    limits::{Deadline, Stopped},
};

/// Steps between two looks at the clock.
const STEPS_PER_LOOK: u32 = 64;
/// Deepest nesting of a value, which is printed and dropped recursively.
const MAX_DEPTH: usize = 2_000;
/// Bits of the largest integer. Operations on larger ones take long, and cannot be stopped.
const MAX_INTEGER_BITS: u64 = 100_000;

/// Kinds of data of a metered program.
pub(super) struct Metered;

impl DataT for Metered {
    type V<'a> = Val;
    type Data<'a> = Run<'a>;
}

/// Data of one run: the compiled program and its meter.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) lut: &'a Lut<Metered>,
    pub(super) meter: &'a Meter,
}

impl<'a> HasLut<'a, Metered> for Run<'a> {
    fn lut(&self) -> &'a Lut<Metered> {
        self.lut
    }
}

/// Measures one program. A program that has exceeded a limit fails at each further step, so it
/// cannot catch the error and go on.
pub(super) struct Meter {
    deadline: Deadline,
    max_bytes: usize,
    /// Address near the beginning of the thread's stack, which grows downwards.
    stack_top: usize,
    max_stack: usize,
    steps: Cell<u32>,
    failure: Cell<Option<&'static str>>,
    stopped: Cell<Option<Stopped>>,
}

impl Meter {
    /// Creates the meter of a program that runs on this thread.
    pub(super) fn new(limits: &QueryLimits, max_stack: usize) -> Self {
        Self {
            deadline: Deadline::start(limits),
            max_bytes: limits.max_value_bytes,
            stack_top: stack_address(),
            max_stack,
            steps: Cell::new(0),
            failure: Cell::new(None),
            stopped: Cell::new(None),
        }
    }

    /// Returns why the program was stopped.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.stopped.get()
    }

    /// Counts a step.
    pub(super) fn step(&self) -> Result<(), &'static str> {
        if let Some(failure) = self.failure.get() {
            return Err(failure);
        }
        if self.stack_top.abs_diff(stack_address()) > self.max_stack {
            return self.fail("its recursion is too deep");
        }
        let steps = self.steps.get() + 1;
        self.steps.set(steps % STEPS_PER_LOOK);
        if steps == STEPS_PER_LOOK
            && let Err(stopped) = self.deadline.check()
        {
            self.stopped.set(Some(stopped));
            return self.fail("its time is over");
        }
        Ok(())
    }

    /// Counts a step that made a value by an operation, which makes it at most twice as large.
    pub(super) fn value(&self, value: &Val) -> Result<(), &'static str> {
        self.step()?;
        let bytes = match value {
            Val::TStr(text) | Val::BStr(text) => text.len(),
            Val::Arr(values) => values.len() * size_of::<Val>(),
            Val::Obj(members) => members.len() * 2 * size_of::<Val>(),
            Val::Num(Num::BigInt(integer)) if integer.bits() > MAX_INTEGER_BITS => {
                return self.fail("a number is too large");
            }
            _ => 0,
        };
        self.bytes(bytes)
    }

    /// Checks the size of a value that is about to be made.
    pub(super) fn bytes(&self, bytes: usize) -> Result<(), &'static str> {
        if bytes > self.max_bytes {
            return self.fail("a value is too large");
        }
        Ok(())
    }

    /// Counts a step that made a value of others. It may have the same part many times, so its size
    /// when it is written out counts.
    pub(super) fn whole_value(&self, value: &Val) -> Result<(), &'static str> {
        self.value(value)?;
        let mut bytes = 0;
        let mut open = vec![(value, 0)];
        while let Some((value, depth)) = open.pop() {
            if depth > MAX_DEPTH {
                return self.fail("a value is nested too deeply");
            }
            bytes += size_of::<Val>();
            match value {
                Val::Arr(values) => open.extend(values.iter().map(|value| (value, depth + 1))),
                Val::Obj(members) => {
                    let parts = members.iter().flat_map(|(key, value)| [key, value]);
                    open.extend(parts.map(|value| (value, depth + 1)));
                }
                Val::TStr(text) | Val::BStr(text) => bytes += text.len(),
                _ => {}
            }
            self.bytes(bytes + open.len() * size_of::<Val>())?;
        }
        Ok(())
    }

    fn fail(&self, failure: &'static str) -> Result<(), &'static str> {
        self.failure.set(Some(failure));
        Err(failure)
    }
}

/// Returns an address in the present frame of the stack.
#[inline(never)]
fn stack_address() -> usize {
    let marker = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&marker)).addr()
}
