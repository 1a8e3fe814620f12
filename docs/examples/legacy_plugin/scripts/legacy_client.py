# The Python 2 client that nobody dared to touch.
import vllm_client

print "tokens:", vllm_client.count()
