//! Measures a program while it runs: time, stack and the sizes of its values.

use std::cell::Cell;

use jaq_core::{DataT, Lut, data::HasLut};
use jaq_json::{Num, Val};

use crate::{
    QueryLimits,
    json::JsonExtent,
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

/// Deepest nesting of a text that a program reads as JSON, and its longest number, in bytes. The
/// parser recurses, and the time of a number grows with the square of its length.
const MAX_READ_DEPTH: usize = 1_000;
pub(super) const MAX_NUMBER_BYTES: usize = 10_000;
/// Comparisons of `indices`: of bytes of texts, and of elements of arrays.
const MAX_BYTE_COMPARISONS: usize = 4_000_000_000;
const MAX_ELEMENT_COMPARISONS: usize = 20_000_000;
/// Values from this size on are followed by a look at the memory of the process.
const LARGE_BYTES: usize = 1 << 20;
/// Looks at the clock between two looks at the memory of the process.
const LOOKS_PER_MEMORY_LOOK: u32 = 32;

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
    looks: Cell<u32>,
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
            looks: Cell::new(0),
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
        if steps == STEPS_PER_LOOK { self.look() } else { Ok(()) }
    }

    /// Looks at the clock, and from time to time at the memory of the process.
    pub(super) fn look(&self) -> Result<(), &'static str> {
        let looks = self.looks.get() + 1;
        self.looks.set(looks % LOOKS_PER_MEMORY_LOOK);
        let is_memory_look = looks == LOOKS_PER_MEMORY_LOOK;
        let memory = if is_memory_look { self.deadline.check_memory() } else { Ok(()) };
        match self.deadline.check().and(memory) {
            Ok(()) => Ok(()),
            Err(stopped) => self.stop(stopped),
        }
    }

    fn stop(&self, stopped: Stopped) -> Result<(), &'static str> {
        self.stopped.set(Some(stopped));
        self.fail("it was stopped")
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
        // A program may hold many large values at a time.
        if bytes >= LARGE_BYTES
            && let Err(stopped) = self.deadline.check_memory()
        {
            return self.stop(stopped);
        }
        Ok(())
    }

    /// Counts a step before a text is read as JSON.
    pub(super) fn readable(&self, value: &Val) -> Result<(), &'static str> {
        self.step()?;
        let (Val::TStr(text) | Val::BStr(text)) = value else { return Ok(()) };
        let text = JsonExtent::of(text);
        if text.depth > MAX_READ_DEPTH {
            return self.fail("a text is nested too deeply to be read as JSON");
        }
        if text.number_bytes > MAX_NUMBER_BYTES {
            return self.fail("a number is too long");
        }
        Ok(())
    }

    /// Counts a step before a filter reads the characters of a text one by one.
    pub(super) fn characters(&self, value: &Val) -> Result<(), &'static str> {
        self.step()?;
        match value {
            Val::TStr(text) | Val::BStr(text) => {
                self.bytes(text.len().saturating_mul(size_of::<Val>()))
            }
            _ => Ok(()),
        }
    }

    /// Counts the comparisons of a search for a value in another one.
    pub(super) fn comparisons(&self, within: &Val, wanted: &Val) -> Result<(), &'static str> {
        let is_too_much = match (within, wanted) {
            (Val::TStr(text) | Val::BStr(text), Val::TStr(part) | Val::BStr(part)) => {
                text.len().saturating_mul(part.len()) > MAX_BYTE_COMPARISONS
            }
            (Val::Arr(values), Val::Arr(part)) => {
                values.len().saturating_mul(part.len()) > MAX_ELEMENT_COMPARISONS
            }
            _ => false,
        };
        if is_too_much { self.fail("indices compares too much") } else { Ok(()) }
    }

    /// Counts a step that made a value of others. It may have the same part many times, so its size
    /// when it is written out counts.
    pub(super) fn whole_value(&self, value: &Val) -> Result<(), &'static str> {
        self.value(value)?;
        if !matches!(value, Val::Arr(_) | Val::Obj(_)) {
            return Ok(());
        }
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
