"""The reading child without the start of an interpreter: a fork of the tests' own process, with all its limits."""

import os

from prototorch.engine.storage import hdf5_sandbox


class ForkedReader:
    """What `foreign` needs of a child."""

    def __init__(self, request):
        answer, refusal = os.pipe(), os.pipe()
        self.pid, self.status = os.fork(), None
        if self.pid == 0:
            status = 1
            try:
                os.close(answer[0])
                os.close(refusal[0])
                quiet = os.open(os.devnull, os.O_WRONLY)
                os.dup2(quiet, 1)
                os.dup2(quiet, 2)
                status = hdf5_sandbox.serve(request, os.fdopen(answer[1], "wb"), os.fdopen(refusal[1], "wb"))
            finally:
                os._exit(status)
        os.close(answer[1])
        os.close(refusal[1])
        self.stdout, self.stderr = os.fdopen(answer[0], "rb", 0), os.fdopen(refusal[0], "rb", 0)

    def kill(self):
        if self.status is None:
            os.kill(self.pid, 9)

    def wait(self):
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status
