"""weights_to_outputs_pass: a training program also returns its weights, so that an optimiser can
find them.

Only for programs whose signature has a backward part; every parameter with a gradient becomes an
extra output of kind TOKEN.
"""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

from executorch_py.exir.ir.graph import output_node, placeholders


def weights_to_outputs_pass(exported_program: ExportedProgram) -> ExportedProgram:
    """Append trained weights to the outputs; other programs are returned as they are."""
    signature = exported_program.graph_signature
    trained = [
        spec.target
        for spec in signature.output_specs
        if spec.kind is OutputKind.GRADIENT_TO_PARAMETER
    ]
    if not trained:
        return exported_program
    names = {fqn: name for name, fqn in signature.inputs_to_parameters.items()}
    by_name = {node.name: node for node in placeholders(exported_program.graph_module.graph)}
    weights = [by_name[names[fqn]] for fqn in trained if fqn in names]
    output = output_node(exported_program.graph_module.graph)
    values = list(output.args[0])
    output.args = (tuple([*values, *weights]),)
    for node in weights:
        signature.output_specs.append(
            OutputSpec(
                kind=OutputKind.TOKEN,
                arg=TensorArgument(name=node.name),
                target=signature.inputs_to_parameters[node.name],
            )
        )
    return exported_program
