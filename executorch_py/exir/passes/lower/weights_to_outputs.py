"""WeightsToOutputs: a training program also returns its weights, for an optimiser to update.

The pass changes only programs whose signature has a backward part: every parameter with a gradient
becomes an extra output of kind TOKEN. The output is the memory that the next run reads: such
weights have planned memory, which starts with the values in the file.
"""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

from executorch_py.exir.ir.graph import output_node, placeholders
from executorch_py.exir.passes.base import Contract, Pass


class WeightsToOutputs(Pass):
    """Append trained weights to the outputs."""

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        signature, graph = program.graph_signature, program.graph_module.graph
        trained = [
            spec.target
            for spec in signature.output_specs
            if spec.kind is OutputKind.GRADIENT_TO_PARAMETER
        ]
        if not trained:
            return False
        names = {fqn: name for name, fqn in signature.inputs_to_parameters.items()}
        by_name = {node.name: node for node in placeholders(graph)}
        weights = [by_name[names[fqn]] for fqn in trained if fqn in names]
        output = output_node(graph)
        output.args = (tuple([*output.args[0], *weights]),)
        for node in weights:
            signature.output_specs.append(
                OutputSpec(
                    kind=OutputKind.TOKEN,
                    arg=TensorArgument(name=node.name),
                    target=signature.inputs_to_parameters[node.name],
                )
            )
        return bool(weights)


def weights_to_outputs_pass(exported_program: ExportedProgram) -> ExportedProgram:
    """WeightsToOutputs under upstream's name: changes the program in place, and returns it."""
    WeightsToOutputs().run(exported_program)
    return exported_program
