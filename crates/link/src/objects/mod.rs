//! Phase `objects`: every input is parsed and checked.
//!
//! In: the bytes of the inputs. Out: [`InputObjects`]: tables of sections, symbols, attribute
//! records and call-graph records in which every index is valid. Guaranteed: later phases meet no
//! malformed record, so they cannot fail on one.

mod checks;
pub(crate) mod counterparts;
pub(crate) mod jump_slot;
pub(crate) mod linkers;
mod lookups;
pub(crate) mod object;
pub(crate) mod outline;
pub(crate) mod records;
pub(crate) mod roles;
pub(crate) mod system_libraries;
mod target;
pub(crate) mod tensor_memory;
mod unified_ids;
pub(crate) mod whole;

use self::object::InputObject;
use self::target::TargetCheck;
use crate::base::id::{IdVec, ObjectId};
use crate::base::session::Session;
use crate::diag::{Diagnostics, Failed};
use crate::options::LinkOptions;
use crate::options::input::Input;

/// All inputs, in command order.
pub(crate) struct InputObjects<'d> {
    pub(crate) all: IdVec<ObjectId, InputObject<'d>>,
}

impl<'d> std::ops::Index<ObjectId> for InputObjects<'d> {
    type Output = InputObject<'d>;

    fn index(&self, id: ObjectId) -> &InputObject<'d> {
        &self.all[id]
    }
}

impl<'d> InputObjects<'d> {
    /// Bytes of the relocation records of all files, a measure of work.
    pub(crate) fn reloc_bytes(&self) -> usize {
        self.iter().map(|(_, object)| object.outline.reloc_bytes).sum()
    }

    /// Parses all inputs. Reports the first in command order that cannot be linked.
    pub(crate) fn parse(
        session: &Session,
        inputs: &[Input<'d>],
        options: &LinkOptions,
        diags: &mut Diagnostics,
    ) -> Result<Self, Failed> {
        let total: usize = inputs.iter().map(|input| input.bytes.len()).sum();
        let parse = |place: usize| InputObject::parse(inputs[place], options.dialect);
        let parsed: Vec<_> = session.map(inputs.len(), total, parse);
        let mut any_whole_program = false;
        // Collected in place, because objects are large.
        let all: Result<Vec<_>, _> = parsed
            .into_iter()
            .enumerate()
            .map(|(place, parsed)| {
                let checked = parsed.map_err(|message| diags.fatal(message)).and_then(|object| {
                    TargetCheck { place, object: &object, options, compute: None }.run(diags)?;
                    any_whole_program |= object.is_extensible();
                    if any_whole_program {
                        target::check_release(&object, options, diags)?;
                    }
                    match whole::defect(&object, options) {
                        Some(defect) => Err(diags.fatal(defect)),
                        None => Ok(object),
                    }
                });
                checked.inspect_err(|_| diags.end_at(place))
            })
            .collect();
        Ok(InputObjects { all: all?.into() })
    }

    /// Checks the targets and releases of `inputs`, up to the first that does not suit the virtual
    /// target `compute`. Such a link has no output, and nvlink looks at nothing else of them: what
    /// cannot be read is no error.
    pub(crate) fn check_compute(
        inputs: &[Input<'_>],
        options: &LinkOptions,
        compute: &str,
        diags: &mut Diagnostics,
    ) -> Result<(), Failed> {
        let mut limited = false;
        for (place, &input) in inputs.iter().enumerate() {
            if let Ok(object) = InputObject::parse(input, options.dialect) {
                if !limited && target::limits(&object, options) {
                    limited = true;
                    diags.warning(target::for_one_arch(&object, options));
                }
                let compute = Some(compute);
                let checked = TargetCheck { place, object: &object, options, compute }.run(diags);
                checked.inspect_err(|_| diags.end_at(place))?;
            }
        }
        Ok(())
    }

    /// True if some input is a whole program (`ptxas -ewp`).
    pub(crate) fn has_extensible(&self) -> bool {
        self.all.values().any(InputObject::is_extensible)
    }

    /// Removes the files at `places`, which are in ascending order.
    pub(crate) fn remove(&mut self, places: &[usize]) {
        let all = std::mem::take(&mut self.all);
        let stays = |(place, _): &(usize, InputObject<'d>)| places.binary_search(place).is_err();
        let rest = all.into_values().enumerate().filter(stays);
        self.all = rest.map(|(_, object)| object).collect();
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (ObjectId, &InputObject<'d>)> {
        self.all.iter()
    }

    pub(crate) fn file(&self, id: ObjectId) -> String {
        self.all[id].name.to_owned()
    }
}
